import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import type { PlanDocument } from "../../host/changes/plan-schema.ts";
import { type PlanWires, tapPlan } from "../kit/plan-wires.ts";
import { planDocumentOf } from "../kit/plan.ts";
import { deleteService } from "../kit/services.ts";
import { AzureView, features } from "./service-features.ts";
import { openOnSandbox } from "./service-lab.ts";

setDefaultTimeout(180_000);

const services = ["--controllers=service-lb-controller", "--configure-cloud-routes=false"];
const all = ["--controllers=*", "--allocate-node-cidrs", "--cluster-cidr=10.244.0.0/16"];

/** Makes a plan and checks on both wires that it sends only reads. */
async function planOf(wires: PlanWires, config: string, flags: readonly string[]): Promise<PlanDocument> {
  wires.drain();
  const document = await planDocumentOf([`--kubeconfig=${wires.kubeconfig}`, `--cloud-config=${config}`, ...flags]);
  const { arm, kubernetes, refused } = wires.drain();
  expect(refused).toEqual([]);
  for (const requests of [arm, kubernetes]) expect(requests.length).toBeGreaterThan(2);
  return document;
}

describe("the plan of a Service from its creation to its deletion", () => {
  for (const { promise, services: wanted, addresses = 1, before, later, ...options } of features)
    test.concurrent(
      `${promise}: sends only read requests, and has no changes left for what a host has written`,
      async () => {
        const { lab, api } = await openOnSandbox(options);
        await using _ = lab;
        await before?.(lab);
        await using stack = new AsyncDisposableStack();
        const folder = await mkdtemp(join(tmpdir(), "service-plans-"));
        stack.defer(() => rm(folder, { recursive: true }));
        const wires = stack.use(await tapPlan({ api, simulator: lab.simulator }, folder));
        const config = join(folder, "cloud-config.json");
        await writeFile(config, JSON.stringify({ ...lab.cloudConfig(), ...wires.arm }));
        for (const service of wanted) await lab.create(service);
        const names = wanted.map(({ metadata }) => metadata?.name ?? "");
        const created = await planOf(wires, config, all);
        for (const name of names)
          expect(created.changes.flatMap(({ reasons }) => reasons)).toContain(`Service default/${name}`);

        await lab.start();
        const served = await Promise.all(names.map((name) => lab.served(name, addresses)));
        await later?.(lab, new AzureView(lab.simulator), served);
        await lab.restart(wanted.length);
        await lab.stop();
        const { changes, failures } = await planOf(wires, config, services);
        expect({ changes, failures }).toEqual({ changes: [], failures: [] });

        for (const name of names) await deleteService(lab.admin, name);
        const deleted = await planOf(wires, config, services);
        expect(deleted.changes.map(({ action }) => action)).toContain("delete");
      },
    );
});
