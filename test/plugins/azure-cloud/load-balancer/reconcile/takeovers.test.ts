import { expect, test } from "bun:test";

import { annotations } from "cloud-controller-host/sdk";

import { azureState } from "../azure-state.ts";
import { type Cluster, jumpingClock, openCluster, serviceOf } from "../cluster.ts";

const servedBy = (name: string, lease: string) => {
  const service = serviceOf(name);
  return { ...service, metadata: { ...service.metadata, annotations: { [annotations.servedBy]: lease } } };
};

/** A cluster in which one deployment has served a Service, and another one is about to. */
async function served(mark: string, creationTimestamp = "2026-01-01T00:00:00Z") {
  const cluster = await openCluster(1);
  const { clock, jump } = jumpingClock();
  const before = serviceOf("web");
  const web = { ...before, metadata: { ...before.metadata, creationTimestamp } };
  const other = await cluster.start();
  await cluster.ensure(other, mark === "" ? serviceOf("others") : servedBy("others", mark));
  await cluster.ensure(other, web);
  return { cluster, other, web, jump, own: await cluster.start({}, clock) };
}

const readsOf = ({ world }: Cluster): number =>
  world.simulator.log.filter(({ method, path }) => method === "GET" && path.includes("/networkSecurityGroups")).length;

test.each([
  ["gets back what the other deployment has removed", 70_000, "2026-01-01T00:00:00Z", "another", true],
  ["costs no read as the process starts", 0, "2026-01-01T00:00:00Z", "another", false],
  ["costs no read if it has just been created", 70_000, "2100-01-01T00:00:00Z", "another", false],
  ["costs no read where no deployment marks Services", 70_000, "2026-01-01T00:00:00Z", "", false],
])("a Service that comes from another deployment %s", async (_what, upMs, creationTimestamp, mark, isRead) => {
  const { cluster, other, web, jump, own } = await served(mark, creationTimestamp);
  await using _ = cluster;
  await cluster.ensure(own, serviceOf("own"));
  const { allowed, ...all } = azureState(cluster.world.simulator);
  await cluster.remove(other, web);
  jump(upMs);
  cluster.world.simulator.clearLog();
  await cluster.ensure(own, web);
  expect(readsOf(cluster) > 0).toBe(isRead);
  if (!isRead) return;
  const after = azureState(cluster.world.simulator);
  expect(after).toMatchObject(all);
  expect(after.allowed).toHaveLength(allowed.length);
});

test("the Services with which a process begins that has stood by for long share the first reads", async () => {
  const { cluster, jump, web, own } = await served("another");
  await using _ = cluster;
  jump(70_000);
  cluster.world.simulator.clearLog();
  await cluster.ensure(own, serviceOf("own"));
  const first = readsOf(cluster);
  await cluster.ensure(own, web);
  expect(readsOf(cluster)).toBe(first);
});
