import { expect, setDefaultTimeout, test } from "bun:test";
import { appendFile, readFile, writeFile } from "node:fs/promises";

import { openSandbox } from "../../../host/sandbox-host.ts";
import { actionOf } from "../../../host/sandbox/actions.ts";

setDefaultTimeout(120_000);

test("the sandbox's host reload returns how the reload ended: unchanged, reloaded, refused or disabled", async () => {
  const flags = ["--secure-port=0", "--enable-dynamic-reloading=false"];
  await using sandbox = await openSandbox({ nodes: 0, flags });
  const reload = (): Promise<string> => actionOf("host reload").run(sandbox, "", () => undefined);
  const good = await readFile(sandbox.cloudConfig, "utf8");

  expect(await reload()).toBe("Nothing to reload: config and plugins are unchanged");
  await appendFile(sandbox.cloudConfig, "\nroutesCacheTtlInSeconds: 60\n");
  expect(await reload()).toBe("Reloaded: generation 2 runs");
  await writeFile(sandbox.cloudConfig, "vmType: cluster\n");
  expect(await reload()).toMatch(/^Reload refused; the running generation continues: .*vmType/su);
  expect(sandbox.host.status).toMatchObject({ generation: 2, lastOutcome: { trigger: "sandbox", result: "refused" } });
  await writeFile(sandbox.cloudConfig, "disableCloudProvider: true\n");
  expect(await reload()).toMatch(/^Reloaded without a cloud provider: disableCloudProvider is true/u);
  await writeFile(sandbox.cloudConfig, good);
  expect(await reload()).toMatch(/^Reloaded: generation \d+ runs$/u);
});
