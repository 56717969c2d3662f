import { describe, expect, test } from "bun:test";

import { defaultLoadBalancerName, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { networkResources } from "../../../../../../plugins/azure-cloud/arm/writes/network-resources.ts";
import { decodeConfig } from "../../../../../../plugins/azure-cloud/config/decode.ts";
import { parseJson } from "../../../../../../plugins/azure-cloud/json.ts";
import type { Observed } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import type { MembersWrite } from "../../../../../../plugins/azure-cloud/load-balancer/pools/member-jobs.ts";
import { PoolMembers } from "../../../../../../plugins/azure-cloud/load-balancer/pools/membership.ts";
import { PoolReads } from "../../../../../../plugins/azure-cloud/load-balancer/pools/pool-reads.ts";
import {
  Applier,
  type WriteOutcome,
} from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/apply/apply.ts";
import { NewServices } from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/apply/preconditions.ts";
import { settled } from "../../../../../../sdk/testing/conformance.ts";
import { errorOf } from "../../../../../kit/rejection.ts";
import { instanceID, nodeOf, type World } from "../../../world.ts";
import { azureState } from "../../azure-state.ts";
import { type Cluster, fast, type Generation, openCluster, serviceOf } from "../../cluster.ts";
import { plannerConfigOf } from "../../fixtures.ts";
import { world as observedWith } from "../../world.ts";

/** A Service whose deletion was requested so long ago that reads cannot lag behind a write for it. */
const leavingOf = (name: string): Service => {
  const service = serviceOf(name);
  return { ...service, metadata: { ...service.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } };
};

const addresses = ({ world }: Cluster): number => azureState(world.simulator).publicIPs.length;

/** ARM's writes end after a poll. */
const polled = { operationPolls: 1 };

/** A process has ended while the write was in flight that takes away all frontends but one: their public IPs are attached. */
async function leaveAttached(cluster: Cluster, ...leaving: readonly string[]): Promise<Generation> {
  const first = await cluster.start();
  for (const name of ["stays", ...leaving]) await cluster.ensure(first, serviceOf(name));
  const { simulator } = cluster.world;
  simulator.clearLog();
  simulator.prolongOperations((id) => id.includes("/loadbalancers/"));
  const work = leaving.map((name) => errorOf(cluster.remove(first, serviceOf(name))));
  await eventually("the frontends are being removed", () => cluster.writes().includes("PUT loadBalancers/kubernetes"));
  first.crash();
  await Promise.all(work);
  // A poll that the process had sent may still arrive, and would end the operation.
  await settled(() => simulator.log.length, 10_000);
  simulator.prolongOperations(() => false);
  simulator.clearLog();
  return cluster.start();
}

describe("a public IP that a write of its load balancer has left attached", () => {
  test("is deleted after one write of the load balancer, however many of them there are", async () => {
    await using cluster = await openCluster(1, polled);
    const next = await leaveAttached(cluster, "web", "other");
    await Promise.all(["web", "other"].map((name) => cluster.remove(next, leavingOf(name))));
    expect(addresses(cluster)).toBe(1);
    expect(cluster.writes().filter((write) => write === "PUT loadBalancers/kubernetes")).toHaveLength(1);
  });

  test("keeps its Service until it is deleted: it is not taken for one that something else uses", async () => {
    await using cluster = await openCluster(1, polled);
    const next = await leaveAttached(cluster, "web");
    const conflict = { status: 412, code: "PreconditionFailed", times: 4 };
    cluster.world.simulator.failNext({ method: "PUT", path: "/loadBalancers/" }, conflict);
    expect(String(await errorOf(cluster.remove(next, leavingOf("web"))))).toContain("which does not use it");
    expect([addresses(cluster), next.events]).toEqual([2, []]);
    await cluster.remove(next, leavingOf("web"));
    expect(addresses(cluster)).toBe(1);
  });
});

test("a public IP that a write of its load balancer has left attached is deleted although one of another Service is Failed", async () => {
  await using cluster = await openCluster(1, polled);
  const next = await leaveAttached(cluster, "web");
  const { simulator } = cluster.world;
  const kept = `publicIPAddresses/kubernetes-${defaultLoadBalancerName(serviceOf("stays"))}`;
  const publicIP = simulator.resources().find(({ id }) => id.endsWith(kept));
  if (publicIP === undefined) throw new Error("no public IP");
  simulator.put(publicIP.id, { ...publicIP, properties: { ...publicIP.properties, provisioningState: "Failed" } });
  await cluster.remove(next, leavingOf("web"));
  expect(addresses(cluster)).toBe(1);
  expect(cluster.writes()).toContain(`PUT ${kept}`);
});

test("a public IP that ARM refuses to delete because a NAT gateway uses it is left to that after one attempt", async () => {
  await using cluster = await openCluster(1);
  const generation = await cluster.start();
  await cluster.ensure(generation, serviceOf("web"));
  const { simulator } = cluster.world;
  const [publicIP] = simulator.resources().filter(({ type }) => /\/publicIPAddresses$/iu.test(type));
  if (publicIP === undefined) throw new Error("no public IP");
  const natGateway = { id: publicIP.id.replace(/publicIPAddresses.*/u, "natGateways/theirs") };
  simulator.put(publicIP.id, { ...publicIP, properties: { ...publicIP.properties, natGateway } });
  const refusal = { status: 400, code: "PublicIPAddressCannotBeDeleted", times: 9 };
  simulator.failNext({ method: "DELETE", path: "/publicIPAddresses/" }, refusal);
  simulator.clearLog();
  await cluster.remove(generation, serviceOf("web"));
  const isDeletion = ({ method, path }: { readonly method: string; readonly path: string }): boolean =>
    method === "DELETE" && path.includes("/publicIPAddresses/");
  expect(simulator.log.filter(isDeletion)).toHaveLength(1);
  expect(generation.events.at(-1)).toBe("web DeletePublicIPAddress");
});

test("a public IP that ARM refuses to delete although it shows no user is deleted by a later attempt", async () => {
  await using cluster = await openCluster(1);
  const generation = await cluster.start();
  await cluster.ensure(generation, serviceOf("web"));
  const refusal = { status: 400, code: "PublicIPAddressCannotBeDeleted", times: 2 };
  cluster.world.simulator.failNext({ method: "DELETE", path: "/publicIPAddresses/" }, refusal);
  await cluster.remove(generation, serviceOf("web"));
  expect([addresses(cluster), generation.events]).toEqual([0, []]);
});

/** What carries out writes in a process of its own, and what that process reads. */
async function applierOf(world: World) {
  const decoded = decodeConfig(Object(parseJson(world.simulator.configWith({}))), {});
  if (!decoded.ok) throw new Error(decoded.problems.join("; "));
  const reads = await world.reads();
  const { clients } = reads;
  const common = { clock: fast(1), signal: new AbortController().signal };
  const network = networkResources(clients, decoded.value, common);
  const options = { ...reads, ...common, standard: true, withInstanceView: true };
  const members = new PoolMembers({ ...options, reads: new PoolReads(options), resourceGroup: "" });
  const newServices = new NewServices(() => false);
  const parts = { clients, network, members, newServices, config: plannerConfigOf({}) };
  const applier = new Applier({ ...parts, forgetSubnet: () => undefined, ...common });
  return { applier, network, group: decoded.value.resourceGroup };
}

test.each<[string, WriteOutcome["kind"], boolean]>([
  ["has not seen is in conflict, to be planned again", "conflict", false],
  ["has seen fails, because something else uses it", "failed", true],
])("the deletion of a public IP with a frontend that the plan %s", async (_what, kind, isSeen) => {
  await using cluster = await openCluster(1);
  await cluster.ensure(await cluster.start(), serviceOf("web"));
  const { applier, network, group } = await applierOf(cluster.world);
  const publicIPs = await network.publicIPs.all(group);
  const listed = await network.loadBalancers.all(group);
  const loadBalancers = listed.map((one) => (isSeen ? one : { ...one, frontendIPConfigurations: [] }));
  const [{ id = "", name = "" } = {}] = publicIPs;
  const deletion = { kind: "delete-public-ip", id, name, resourceGroup: group, services: ["default/web"] } as const;
  const started = applier.start([deletion], observedWith({ loadBalancers, publicIPs }));
  expect((await Promise.all(started.map(({ promise }) => promise))).map((outcome) => outcome.kind)).toEqual([kind]);
  expect(addresses(cluster)).toBe(1);
});

/** A write of the load balancer as it is by a process of its own, whose public IPs are read before. */
async function rewritten(
  { world }: Cluster,
  { applier, network, group }: Awaited<ReturnType<typeof applierOf>>,
  seen?: Observed["publicIPs"],
): Promise<WriteOutcome["kind"] | undefined> {
  const publicIPs = seen ?? (await network.publicIPs.all(group));
  const body = (await network.loadBalancers.all(group)).find((one) => one.name === "kubernetes") ?? {};
  const { id = "", name = "" } = body;
  const write = { kind: "put-load-balancer", id, name, body, resourceGroup: group, services: ["default/web"] } as const;
  const [started] = applier.start([write], observedWith({ loadBalancers: [body], publicIPs }));
  const outcome = await started?.promise;
  world.simulator.clearLog();
  return outcome?.kind;
}

test.each<[string, WriteOutcome["kind"], (cluster: Cluster, parts: Awaited<ReturnType<typeof applierOf>>) => unknown]>([
  [
    "that fails: it may have moved them all the same",
    "failed",
    ({ world }) =>
      world.simulator.failNext({ method: "PUT", path: "/loadBalancers/" }, { status: 400, code: "InvalidRequest" }),
  ],
  [
    "after which one of them cannot be read",
    "written",
    async ({ world }, { network, group }) => {
      const [{ id = "" } = {}] = await network.publicIPs.all(group);
      const hold = world.simulator.hold({ method: "PUT", path: "/loadBalancers/" });
      const path = id.slice(id.lastIndexOf("/"));
      void (async () => {
        await eventually("the load balancer is being written", () => hold.waiting() === 1);
        network.publicIPs.invalidate(id);
        world.simulator.failNext({ method: "GET", path }, { status: 403, code: "AuthorizationFailed" });
        hold.release();
      })();
    },
  ],
])("public IPs are listed again after a write of their load balancer %s", async (_what, kind, prepare) => {
  await using cluster = await openCluster(1);
  await cluster.ensure(await cluster.start(), serviceOf("web"));
  const parts = await applierOf(cluster.world);
  await prepare(cluster, parts);
  expect(await rewritten(cluster, parts)).toBe(kind);
  await parts.network.publicIPs.all(parts.group);
  expect(cluster.world.simulator.log.map(({ path }) => path.split("/").at(-1))).toContain("publicIPAddresses");
});

test("a public IP that something else uses stays known as its own after a write of a load balancer", async () => {
  await using cluster = await openCluster(1);
  await cluster.ensure(await cluster.start(), serviceOf("web"));
  const parts = await applierOf(cluster.world);
  const { simulator } = cluster.world;
  const [publicIP] = simulator.resources().filter(({ type }) => /\/publicIPAddresses$/iu.test(type));
  if (publicIP === undefined) throw new Error("no public IP");
  const balancer = simulator.get("/providers/Microsoft.Network/loadBalancers/kubernetes");
  if (balancer === undefined) throw new Error("no load balancer");
  const id = publicIP.id.replace(/[^/]+$/u, "theirs");
  const user = { id: `${balancer.id}-theirs/frontendIPConfigurations/one` };
  const frontend = { name: "one", id: user.id, properties: { publicIPAddress: { id } } };
  const properties = { frontendIPConfigurations: [frontend] };
  simulator.put(id, { ...publicIP, id, name: "theirs" });
  simulator.put(`${balancer.id}-theirs`, {
    ...balancer,
    id: `${balancer.id}-theirs`,
    name: "kubernetes-theirs",
    properties,
  });
  expect(await rewritten(cluster, parts)).toBe("written");
  const known = await parts.network.publicIPs.all(parts.group);
  expect(simulator.log).toEqual([]);
  const theirs = known.find(({ name }) => name === "theirs");
  expect(theirs?.ipConfiguration?.id).toBe(user.id);
  // The next write of one whose frontend is the same needs no read.
  expect(known.map(({ etag }) => typeof etag)).toEqual(["string", "string"]);
});

test("a public IP that was created since the plan was observed is known with its frontend after the write of that", async () => {
  await using cluster = await openCluster(1);
  await cluster.ensure(await cluster.start(), serviceOf("web"));
  const parts = await applierOf(cluster.world);
  const { publicIPs } = parts.network;
  const [{ ipConfiguration, ...created } = {}] = await publicIPs.all(parts.group);
  publicIPs.store(created);
  expect(await rewritten(cluster, parts, [])).toBe("written");
  expect((await publicIPs.all(parts.group))[0]?.ipConfiguration).toEqual(ipConfiguration);
});

test.each([
  ["succeed, are of the first one", 0, ["written", "written shared"]],
  ["are refused in part, are of one that succeeds", 2, ["failed", "written"]],
])("requests for the members of several pools, which %s", async (_what, times, expected) => {
  await using cluster = await openCluster(0);
  const { simulator } = cluster.world;
  simulator.addScaleSet({ name: "dual", dualStack: true });
  simulator.addScaleSetInstances("dual", 1);
  await cluster.ensure(await cluster.start(), serviceOf("web", { spec: { ipFamilies: ["IPv4", "IPv6"] } }));
  const { applier, network, group } = await applierOf(cluster.world);
  const loadBalancers = await network.loadBalancers.all(group);
  const pools = loadBalancers.flatMap(({ backendAddressPools = [] }) => backendAddressPools);
  const writes = pools.map(({ id = "", name = "" }): MembersWrite => ({
    kind: "update-members",
    id,
    name,
    resourceGroup: group,
    loadBalancer: "kubernetes",
    services: ["default/web"],
    family: name.endsWith("IPv6") ? "IPv6" : "IPv4",
    join: ["node-0"],
    leave: [],
  }));
  const refusal = { status: 400, code: "PoolIsFull", times };
  if (times > 0) simulator.failNext({ method: "PUT", path: "/virtualMachines/0" }, refusal);
  const nodes = [nodeOf("node-0", { providerID: instanceID(0, "dual") })];
  const outcomes = await applier.members(writes, observedWith({ loadBalancers, nodes }));
  const shown = outcomes.map((one) => `${one.kind}${"shared" in one ? " shared" : ""}`);
  expect(shown).toEqual(expected);
  expect(outcomes.at(-1)).toMatchObject({ requests: 2 });
});
