import { expect, test } from "bun:test";

import { annotations, ApiError, findStatusCondition, keyOf, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { errorOf } from "../../../../kit/rejection.ts";
import { azureState } from "../azure-state.ts";
import { type Cluster, fast, openCluster, serviceOf } from "../cluster.ts";

const additional = "203.0.113.1";
const shards = { own: "own", isAlive: () => Promise.resolve(true) };

/** A Service that this deployment has marked, and the addresses that it names besides its own. */
function marked(named: string): Service {
  const service = serviceOf("web", { annotations: named === "" ? {} : { "azure-additional-public-ips": named } });
  const mark = { [annotations.servedBy]: shards.own };
  return { ...service, metadata: { ...service.metadata, annotations: { ...service.metadata?.annotations, ...mark } } };
}

const recordOf = ({ services }: Cluster): string | undefined =>
  findStatusCondition(services.get(keyOf(marked("")))?.status?.conditions, "AdditionalAddressesOpen")?.message;

const openedIn = ({ world }: Cluster): string => azureState(world.simulator).allowed.join(" ");

test("an additional address is recorded before it is opened, and until it is closed", async () => {
  await using cluster = await openCluster(1);
  const generation = await cluster.start({}, fast(100), { shards });
  const hold = cluster.world.simulator.hold({ method: "PUT", path: /networkSecurityGroups/u });
  const ensured = cluster.ensure(generation, marked(additional));
  await eventually("the security group is written", () => hold.waiting() === 1);
  expect(recordOf(cluster)).toBe(additional);
  hold.release();
  await ensured;
  expect(recordOf(cluster)).toBe(additional);
  expect(openedIn(cluster)).toContain(additional);
  await cluster.ensure(generation, marked(""));
  expect(recordOf(cluster)).toBeUndefined();
  expect(openedIn(cluster)).not.toContain(additional);
});

test("an additional address of a process that was killed is closed by the next one, although the Service names it no more", async () => {
  await using cluster = await openCluster(1);
  const killed = await cluster.start({}, fast(100), { shards });
  await cluster.ensure(killed, marked(""));
  const hold = cluster.world.simulator.hold({ method: "PUT", path: /networkSecurityGroups/u }, "response");
  const ensured = errorOf(cluster.ensure(killed, marked(additional)));
  await eventually("the security group is written", () => hold.waiting() === 1);
  killed.crash();
  hold.release();
  await ensured;
  expect(openedIn(cluster)).toContain(additional);
  await cluster.ensure(await cluster.start({}, fast(100), { shards }), marked(""));
  expect(openedIn(cluster)).not.toContain(additional);
  expect(recordOf(cluster)).toBeUndefined();
});

test("nothing is opened for a Service whose record cannot be written, and other Services are done meanwhile", async () => {
  await using cluster = await openCluster(1);
  const { client } = cluster.world.leases;
  const patch = () => Promise.reject(new ApiError(403, "Forbidden", "services is forbidden"));
  const denied = await cluster.start({}, fast(100), { shards, client: { ...client, patch } });
  const ensured = errorOf(cluster.ensure(denied, marked(additional)));
  await cluster.ensure(denied, serviceOf("other"));
  expect(await ensured).toMatchObject({
    message: "failed to record the opened addresses of Service: services is forbidden",
  });
  expect(openedIn(cluster)).not.toContain(additional);
});

test("nothing is recorded for a Service that is deleted", async () => {
  await using cluster = await openCluster(1);
  const alone = await cluster.start({}, fast(100));
  await cluster.ensure(alone, serviceOf("web", { annotations: { "azure-additional-public-ips": additional } }));
  expect(recordOf(cluster)).toBeUndefined();
  const shared = await cluster.start({}, fast(100), { shards });
  cluster.services.set("default/web", marked(additional));
  await shared.balancers.ensureLoadBalancerDeleted("kubernetes", marked(additional));
  expect(recordOf(cluster)).toBeUndefined();
  expect(openedIn(cluster)).not.toContain(additional);
});

/** Holds the next patches of Services until they are released. */
function holdPatches({ patching }: Cluster) {
  const { promise, resolve } = Promise.withResolvers<void>();
  let waiting = 0;
  patching.add(async () => {
    waiting += 1;
    await promise;
  });
  return { waiting: () => waiting, release: resolve };
}

test("a Service that changes while its record is written is not done before its change is carried out", async () => {
  await using cluster = await openCluster(1);
  const generation = await cluster.start({}, fast(100), { shards });
  await cluster.ensure(generation, marked(additional));
  const hold = holdPatches(cluster);
  const unchanged = cluster.ensure(generation, marked(""));
  // What is closed by now is removed from it last.
  await eventually("its record is being written", () => hold.waiting() === 1);
  const ports = [{ protocol: "TCP", port: 8443, nodePort: 31_443 }];
  const changed = cluster.ensure(generation, { ...marked(""), spec: { ...marked("").spec, ports } });
  await Bun.sleep(50);
  hold.release();
  await Promise.all([unchanged, changed]);
  expect(openedIn(cluster)).toContain("8443");
});

test("a process that stops while a record is written opens nothing, and leaves no Service waiting", async () => {
  await using cluster = await openCluster(1);
  const generation = await cluster.start({}, fast(100), { shards });
  const hold = holdPatches(cluster);
  const ensured = errorOf(cluster.ensure(generation, marked(additional)));
  await eventually("its record is being written", () => hold.waiting() === 1);
  generation.crash();
  hold.release();
  expect(await ensured).toBeInstanceOf(Error);
  expect(openedIn(cluster)).not.toContain(additional);
});
