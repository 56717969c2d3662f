import { expect, test } from "bun:test";

import { annotations } from "cloud-controller-host/sdk";

import { azureState } from "../azure-state.ts";
import { jumpingClock, openCluster, serviceOf } from "../cluster.ts";

const servedBy = (name: string, lease: string) => {
  const service = serviceOf(name);
  return { ...service, metadata: { ...service.metadata, annotations: { [annotations.servedBy]: lease } } };
};

test.each([
  ["gets back what the other deployment has removed", 70_000, "2026-01-01T00:00:00Z", "another", true],
  ["costs no read as the process starts", 0, "2026-01-01T00:00:00Z", "another", false],
  ["costs no read if it has just been created", 70_000, "2100-01-01T00:00:00Z", "another", false],
  ["costs no read where no deployment marks Services", 70_000, "2026-01-01T00:00:00Z", "", false],
])("a Service that comes from another deployment %s", async (_what, upMs, creationTimestamp, mark, isRead) => {
  await using cluster = await openCluster(1);
  const { clock, jump } = jumpingClock();
  const before = serviceOf("web");
  const web = { ...before, metadata: { ...before.metadata, creationTimestamp } };
  const other = await cluster.start();
  await cluster.ensure(other, mark === "" ? serviceOf("others") : servedBy("others", mark));
  await cluster.ensure(other, web);
  const own = await cluster.start({}, clock);
  await cluster.ensure(own, serviceOf("own"));
  const { allowed, ...all } = azureState(cluster.world.simulator);
  await cluster.remove(other, web);
  jump(upMs);
  cluster.world.simulator.clearLog();
  await cluster.ensure(own, web);
  const reads = cluster.world.simulator.log.filter(
    ({ method, path }) => method === "GET" && /networkSecurityGroups/u.test(path),
  );
  expect(reads.length > 0).toBe(isRead);
  if (!isRead) return;
  const after = azureState(cluster.world.simulator);
  expect(after).toMatchObject(all);
  expect(after.allowed).toHaveLength(allowed.length);
});
