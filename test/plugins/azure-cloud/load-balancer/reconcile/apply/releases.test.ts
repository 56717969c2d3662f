import { expect, test } from "bun:test";

import type { LoadBalancer } from "@azure/arm-network";
import { annotations, type CloudContext, type Service } from "cloud-controller-host/sdk";

import { ArmError } from "../../../../../../plugins/azure-cloud/arm/errors.ts";
import type { MembersWrite } from "../../../../../../plugins/azure-cloud/load-balancer/pools/member-jobs.ts";
import { refusedReleases } from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/apply/releases.ts";
import { azureState } from "../../azure-state.ts";
import { openCluster, serviceOf } from "../../cluster.ts";
import { plannerConfigOf } from "../../fixtures.ts";
import { usersBalancer, world } from "../../world.ts";

const servedBy = (name: string, lease: string): Service => {
  const { metadata, ...rest } = serviceOf(name);
  return { ...rest, metadata: { ...metadata, annotations: { [annotations.servedBy]: lease } } };
};

const deployment = (own: string): Partial<CloudContext> => ({ shards: { own } });

test("the last Service of a deployment takes no node out of a pool that a Service of another one has begun to use", async () => {
  await using cluster = await openCluster(2);
  const one = await cluster.start({}, undefined, deployment("one"));
  const other = await cluster.start({}, undefined, deployment("other"));
  await cluster.ensure(one, serviceOf("web"));
  // Reads the load balancer again, with its members.
  await cluster.ensure(one, serviceOf("web"));
  await cluster.ensure(other, servedBy("theirs", "other"));
  cluster.world.simulator.clearLog();
  await cluster.remove(one, serviceOf("web"));
  expect(cluster.writes().filter((write) => /virtualMachine/u.test(write))).toEqual([]);
  const { balancers, rules } = azureState(cluster.world.simulator);
  expect([balancers, rules.length]).toEqual([["kubernetes"], 1]);
});

test("the last Service of all deployments takes the nodes out of the pools of its load balancer, which is deleted", async () => {
  await using cluster = await openCluster(2);
  const one = await cluster.start({}, undefined, deployment("one"));
  await cluster.ensure(one, servedBy("web", "one"));
  await cluster.remove(one, servedBy("web", "one"));
  const { balancers, pools } = azureState(cluster.world.simulator);
  expect([balancers, pools]).toEqual([[], []]);
});

/** Reads of the load balancer as the last Service of a deployment is deleted. */
async function readsOfDeletion(web: Service, own: Partial<CloudContext>): Promise<number> {
  await using cluster = await openCluster(2);
  const generation = await cluster.start({}, undefined, own);
  await cluster.ensure(generation, web);
  cluster.world.simulator.clearLog();
  await cluster.remove(generation, web);
  const isRead = ({ method, path }: { readonly method: string; readonly path: string }): boolean =>
    method === "GET" && path.endsWith("/loadBalancers/kubernetes");
  return cluster.world.simulator.log.filter(isRead).length;
}

test("the deletion of a last Service takes one read of its load balancer more where deployments share it", async () => {
  const alone = await readsOfDeletion(serviceOf("web"), {});
  expect(await readsOfDeletion(servedBy("web", "one"), deployment("one"))).toBe(alone + 1);
});

const balancer = usersBalancer("kubernetes");
const release: MembersWrite = {
  kind: "release-pools",
  id: balancer.id ?? "",
  name: "kubernetes",
  resourceGroup: "rg0",
  services: ["default/web"],
  poolIds: [],
};

test.each<[string, () => Promise<LoadBalancer | undefined>, object, "conflict" | "failed" | undefined]>([
  ["is as planned is carried out", () => Promise.resolve(balancer), {}, undefined],
  ["is gone is carried out", () => Promise.resolve(undefined), {}, undefined],
  ["has got something is in conflict", () => Promise.resolve({ ...balancer, probes: [] }), {}, "conflict"],
  [
    "cannot be read fails",
    () => Promise.reject(new ArmError(403, "AuthorizationFailed", "no", { method: "GET" })),
    {},
    "failed",
  ],
  [
    "no other deployment writes is carried out without a read",
    () => Promise.reject(new Error("not needed")),
    { shardSuffix: undefined },
    undefined,
  ],
])("the release of the pools of a load balancer that %s", async (_what, read, keys, kind) => {
  const config = { ...plannerConfigOf(), shardSuffix: "", ...keys };
  const observed = world({ loadBalancers: [balancer] });
  const refused = await refusedReleases([release], observed, { network: { loadBalancers: { read } }, config });
  expect(refused.get(release)?.kind).toBe(kind);
});
