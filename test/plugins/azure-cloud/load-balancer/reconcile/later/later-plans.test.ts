import { expect, test } from "bun:test";

import { annotations } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import {
  LaterPlans,
  type LaterPlansOptions,
} from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/later/later-plans.ts";
import { capturedLog } from "../../../../../host/kube/captured-log.ts";
import { instanceID, nodeOf } from "../../../world.ts";
import { fast, openCluster, serviceOf } from "../../cluster.ts";
import { plannerConfigOf } from "../../fixtures.ts";
import { usersBalancer, world } from "../../world.ts";

const scaleSet = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Compute/virtualMachineScaleSets/vmss0";

test("a model that another deployment overwrites with what it had read before is written again by itself", async () => {
  await using cluster = await openCluster(1);
  const { simulator } = cluster.world;
  const { metadata, ...rest } = serviceOf("others");
  const marks = { [annotations.servedBy]: "another" };
  cluster.services.set("default/others", { ...rest, metadata: { ...metadata, annotations: marks } });
  const before = simulator.get(scaleSet);
  await cluster.ensure(await cluster.start({}, fast(200)), serviceOf("web"));
  const pool = "loadBalancers/kubernetes/backendAddressPools/kubernetes";
  const model = (): string => JSON.stringify(simulator.get(scaleSet));
  expect(model()).toContain(pool);
  simulator.put(scaleSet, before ?? {});
  expect(model()).not.toContain(pool);
  await eventually("the pool is in the model again", () => model().includes(pool));
});

const instance = instanceID(0).slice("azure://".length);
const ipConfigurationId = `${instance}/networkInterfaces/nic0/ipConfigurations/ipConfig0`;
const withMember = world({
  poolMembers: new Map([["one", [{ ipConfigurationId, node: "node-0", gone: false, complete: true }]]]),
});

const { loadBalancers } = plannerConfigOf({
  loadBalancerBackendPoolConfigurationType: "nodeIP",
  multipleStandardLoadBalancerConfigurations: [{ name: "kubernetes", primaryVMSet: "vmss0" }],
});
const several = { config: { loadBalancers, shardSuffix: undefined } };
const looks = ["60 s", "180 s", "420 s"];

test.each<[string, (later: LaterPlans) => void, readonly string[], Partial<LaterPlansOptions>?]>([
  ["operations on the members of pools at the start", (later) => later.seen(withMember, []), ["0 s: read 0, cached"]],
  [
    "operations on instances that are not waited for any more",
    (later) => {
      later.abandoned(instance);
      later.seen(world(), []);
    },
    ["0 s: read 0, fresh", "0 s: plan all"],
  ],
  [
    "operations on resources of Services that this process has not begun",
    (later) => later.seen(world({ securityGroup: { id: "nsg0", provisioningState: "Updating" } }), []),
    ["60 s: plan all"],
  ],
  [
    "a load balancer that is gone",
    (later) => {
      later.seen(world({ loadBalancers: [usersBalancer("kubernetes")] }), []);
      later.seen(world(), []);
    },
    ["0 s: plan kubernetes"],
  ],
  ["a pool whose members were written", (later) => later.moved("/pools/one"), ["60 s: plan one"]],
  ["an instance that was left out", (later) => later.skipped(instance), ["30 s: plan all"]],
  ["models of scale sets that are in doubt", (later) => later.lookAtModels(), looks.map((at) => `${at}: read models`)],
  [
    "a Service that changes where other deployments write the same scale sets",
    (later) => later.submitted(),
    looks.map((at) => `${at}: read models`),
    { config: { loadBalancers: [], shardSuffix: undefined }, isShared: () => true },
  ],
  [
    "a Service that changes where other deployments have several load balancers of their own",
    (later) => later.submitted(),
    looks.map((at) => `${at}: read models`),
    { config: { loadBalancers, shardSuffix: "-blue" }, isShared: () => true },
  ],
  [
    "a Service that changes where other deployments write the same load balancers",
    (later) => later.submitted(),
    looks.flatMap((at) => [`${at}: read everything`, `${at}: plan all`]),
    { isShared: () => true },
  ],
  ["a Service that changes where no other deployment writes", (later) => later.submitted(), []],
])("exactly the plans and reads that are due follow %s", async (_what, happen, expected, more = {}) => {
  const clock = manualClock();
  const stop = new AbortController();
  const done: string[] = [];
  const note = (what: string): void => void done.push(`${clock.monotonic() / 1000} s: ${what}`);
  const nameOf = (id: string): string => id.slice(id.lastIndexOf("/") + 1);
  const later = new LaterPlans({
    context: { clock, signal: stop.signal, log: capturedLog().log },
    pools: {
      unended: async (ids, freshness) => {
        if (ids.length > 0) note(`read ${ids.map(nameOf).join()}, ${freshness}`);
        return [];
      },
      haveModelsChanged: async () => {
        note("read models");
        return false;
      },
    },
    nodes: () => [
      {
        ...nodeOf("node-0", { providerID: instanceID(0) }),
        status: { conditions: [{ type: "Ready", status: "True" }] },
      },
    ],
    isShared: () => false,
    ...several,
    forget: () => note("read everything"),
    planPool: async (id) => note(`plan ${nameOf(id)}`),
    outdate: () => undefined,
    refresh: async () => note("plan all"),
    ...more,
  });
  happen(later);
  await clock.advance(0);
  await clock.advance(3_600_000);
  stop.abort();
  expect(done).toEqual([...expected]);
});
