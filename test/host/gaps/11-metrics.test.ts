import { expect, setDefaultTimeout, test } from "bun:test";

import { sampleOf } from "../../../host/sandbox/testing/exposition.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

test("merges metrics on /metrics and /metrics/v2, serves /metrics/slis, and keeps the controller gauge through reloads", async () => {
  await using lab = await SandboxLab.open();
  const host = lab.start({ flags: ["--enable-dynamic-reloading", "--controllers=cloud-node,cloud-node-lifecycle"] });
  const page = async (path: string, init?: BunFetchRequestInit): Promise<string> => (await host.get(path, init)).text();
  const runs = async (controller: string): Promise<number | undefined> =>
    sampleOf(await page("/metrics"), "running_managed_controllers", {
      name: controller,
      manager: "cloud-controller-manager",
    });
  await host.until("it runs", ({ running }) => running);
  await lab.changeConfig();
  await host.until("the next one runs", ({ generation, running }) => generation === 2 && running);
  for (const controller of ["cloud-node", "cloud-node-lifecycle"]) expect(await runs(controller)).toBe(1);

  const families = (text: string): readonly string[] => text.split("\n").filter((line) => line.startsWith("# TYPE"));
  // The host's, the cloud's and the process's own, in one document under both paths.
  const served = families(await page("/metrics"));
  for (const family of ["leader_election_master_status gauge", "arm_request_duration_seconds histogram"])
    expect(served).toContain(`# TYPE ${family}`);
  expect(served).toContain("# TYPE process_resident_memory_bytes gauge");
  expect(new Set(served).size).toBe(served.length);
  expect(families(await page("/metrics/v2"))).toEqual([...served]);

  await page("/healthz");
  const runsOf = async (name: string): Promise<number | undefined> =>
    sampleOf(await page("/metrics/slis"), "kubernetes_healthchecks_total", {
      name,
      type: "healthz",
      status: "success",
    });
  expect(await runsOf("cloud-node-controller")).toBe(1);
  expect(await page("/metrics/slis", { method: "DELETE" })).toBe("metrics reset\n");
  expect(await runsOf("cloud-node-controller")).toBeUndefined();
});
