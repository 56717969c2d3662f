import { describe, expect, test } from "bun:test";

import type { Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { nodeOf } from "../../world.ts";
import { type Cluster, fast, openCluster, serviceOf } from "../cluster.ts";

const families = (...ipFamilies: readonly string[]) => ({ spec: { ipFamilies: [...ipFamilies] } });
const internal = (name: string): Service =>
  serviceOf(name, { annotations: { "azure-load-balancer-internal": "true" } });

const instance = "/virtualMachineScaleSets/dual/virtualMachines/0";

/** The pools of the instance since its last write that succeeded: `kubernetes/backendAddressPools/kubernetes`. */
function poolsOf({ world }: Cluster): readonly string[] {
  const isWrite = ({ method, path, status }: (typeof world.simulator.log)[number]): boolean =>
    method === "PUT" && path.endsWith(instance) && status < 300;
  const body = JSON.stringify(world.simulator.log.findLast(isWrite)?.body ?? "");
  return [...body.matchAll(/loadBalancers\/([^/"]+)\/backendAddressPools\/([^/"]+)/giu)].map(
    ([, balancer, pool]) => `${balancer} ${pool}`,
  );
}

/** Services that are planned together when the instance of another scale set is to join their pools. */
async function openWith(...services: readonly Service[]) {
  const cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const generation = await cluster.start({}, fast(100));
  const ensureAll = async (): Promise<void> =>
    void (await Promise.all(services.map((service) => cluster.ensure(generation, service))));
  const scaleSet = simulator.addScaleSet({ name: "dual", dualStack: true });
  simulator.addScaleSetInstances("dual", 1);
  await ensureAll();
  cluster.nodes.push(nodeOf("dual000000", { providerID: `azure://${scaleSet.id}/virtualMachines/0` }));
  return { cluster, generation, simulator, ensureAll };
}

describe("an instance that waits for a slow write of its scale set", () => {
  test.each([
    ["has moved to the internal load balancer", families("IPv4"), internal("first")],
    ["has given up IPv6", families("IPv4", "IPv6"), serviceOf("first", families("IPv4"))],
  ])("joins the pools of all Services although the first of them %s", async (_title, before, changed) => {
    const services = ["first", "second"].map((name) => serviceOf(name, before));
    const { cluster, generation, simulator, ensureAll } = await openWith(...services);
    await using _ = cluster;
    const hold = simulator.hold({ method: "PUT", path: /\/virtualMachineScaleSets\/dual$/u });
    await ensureAll();
    await cluster.ensure(generation, changed);
    expect([hold.waiting(), poolsOf(cluster)]).toEqual([1, []]);
    hold.release();
    const pools = before.spec.ipFamilies.map((one) => `kubernetes kubernetes${one === "IPv6" ? "-IPv6" : ""}`);
    await eventually("it has joined", () => pools.every((pool) => poolsOf(cluster).includes(pool)));
  });
});

test("an instance that is refused after a slow write shows at every Service of its pools", async () => {
  const services = [serviceOf("one"), serviceOf("other"), internal("inside")];
  const { cluster, generation, simulator, ensureAll } = await openWith(...services);
  await using _ = cluster;
  const hold = simulator.hold({ method: "PUT", path: instance });
  await ensureAll();
  simulator.failNext({ method: "PUT", path: instance }, { status: 409, code: "OperationNotAllowed", times: 1_000 });
  expect(generation.events).toEqual([]);
  hold.release();
  const shown = services.map(({ metadata }) => `${metadata?.name} UpdateLoadBalancerFailed`);
  await eventually("it shows", () => shown.every((event) => generation.events.includes(event)));
});
