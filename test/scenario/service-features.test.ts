import { expect, setDefaultTimeout, test } from "bun:test";

import { AzureView, features } from "./service-features.ts";
import { describeServices } from "./service-lab.ts";

setDefaultTimeout(120_000);

describeServices("a Service from its creation to its deletion", (open) => {
  for (const { promise, services, addresses = 1, before, created, later, ...options } of features)
    test(promise, async () => {
      await using lab = await open(options);
      await before?.(lab);
      const azure = new AzureView(lab.simulator);
      const start = azure.footprint();
      await lab.start();
      for (const service of services) await lab.create(service);
      const names = services.map(({ metadata }) => metadata?.name ?? "");
      const served = await Promise.all(names.map((name) => lab.served(name, addresses)));
      created(azure, served, lab);
      expect(await lab.restart(services.length)).toEqual([]);
      await later?.(lab, azure, served);
      for (const name of names) await lab.remove(name);
      expect(azure.footprint()).toEqual(start);
    });
});
