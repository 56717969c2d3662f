import { expect, setDefaultTimeout, test } from "bun:test";
import { appendFile } from "node:fs/promises";

import { kinds } from "cloud-controller-host/sdk";

import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

test("reloads for every cloud: each trigger creates the next generation and is counted", async () => {
  await using lab = await SandboxLab.open();
  const host = lab.start({ flags: ["--enable-dynamic-reloading"] });
  const first = await host.until("it runs", ({ running }) => running);
  expect(first).toMatchObject({ generation: 1, reloads: 0 });

  await appendFile(lab.azure.config, "# a change\n");
  const second = await host.until("the file is taken", ({ generation, running }) => generation === 2 && running);
  expect(second.configHash).not.toBe(first.configHash);
  host.signal("SIGHUP");
  await host.eventually("the signal is heeded", () => host.lines("Reload skipped").length === 1);
  await lab.changeConfig();
  const third = await host.until("the next change is taken", ({ generation }) => generation === 3);
  expect(third).toMatchObject({ reloads: 2, identity: first.identity });

  expect(host.lines('"Reload started" trigger="--cloud-config=')).toHaveLength(2);
  expect(host.lines('"Reload started" trigger="SIGHUP"')).toHaveLength(1);
  const metrics = await (await host.get("/metrics")).text();
  expect(metrics).toContain('host_reloads_total{result="success"} 2\n');
  expect(metrics).toContain('host_reloads_total{result="unchanged"} 1\n');
  expect(metrics).toContain("host_generation 3\n");
  await host.eventually("both are events on the Lease", () => {
    const reloads = lab.api.list(kinds.Event).filter(({ reason }) => reason === "Reloaded");
    return reloads.length === 2 && reloads.every(({ involvedObject }) => involvedObject.kind === "Lease");
  });
});
