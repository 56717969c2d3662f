import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import type { StuckMember } from "../../../../../plugins/azure-cloud/load-balancer/pools/member-write.ts";
import { stuckMembers } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/stuck-members.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { informersOf, instanceID, nodeOf } from "../../world.ts";
import { jumpingClock, openCluster, serviceOf } from "../cluster.ts";

const minute = 60_000;

/** A cluster of one node whose instance ARM refuses to write, in a state. */
async function stuck(state: string) {
  const cluster = await openCluster(1);
  const { clock, jump } = jumpingClock();
  const reported: string[] = [];
  const generation = await cluster.start({}, clock, {
    events: { event: ({ kind }, _type, reason, message) => void reported.push(`${kind} ${reason}: ${message}`) },
  });
  const { simulator } = cluster.world;
  const refuse = (): void => {
    simulator.changeInstance("vmss0000000", { provisioningState: state });
    simulator.failNext(
      { method: "PUT", path: "virtualMachines/" },
      { status: 409, code: "OperationNotAllowed", message: "The instance is busy.", times: 1000 },
    );
  };
  refuse();
  const ensure = () => errorOf(cluster.ensure(generation, serviceOf("web")));
  return {
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
    simulator,
    nodes: cluster.nodes,
    refuse,
    remove: () => cluster.remove(generation, serviceOf("web")),
    jump,
    ensure,
    reported,
    of: (reason: string) => reported.filter((text) => text.includes(reason)),
  };
}

test("an instance in state Failed that ARM refuses to write is reported on its node and on the Service, once", async () => {
  await using world = await stuck("Failed");
  const { ensure, of } = world;
  for (let sync = 0; sync < 2; sync += 1) expect(String(await ensure())).toContain("The instance is busy.");
  expect(of("InstanceFailed").map((text) => text.split(" ", 1)[0])).toEqual(["Node", "Service"]);
  expect(of("InstanceFailed")[0]).toContain(
    "instance 0 cannot join a backend pool, node vmss0000000 gets no traffic: its provisioning state is Failed; to repair it, drain its node and reimage it",
  );
});

/** After a first sync: each is reported once, on the node and on the Service. */
async function expectOnceAfterTenMinutes(
  reason: string,
  { jump, ensure, of }: Pick<Awaited<ReturnType<typeof stuck>>, "jump" | "ensure" | "of">,
): Promise<void> {
  jump(9 * minute);
  await ensure();
  expect(of(reason)).toEqual([]);
  jump(2 * minute);
  for (let sync = 0; sync < 2; sync += 1) await ensure();
  expect(of(reason).map((text) => text.split(" ", 1)[0])).toEqual(["Node", "Service"]);
}

test("an instance that is Updating is reported once after ten minutes", async () => {
  await using world = await stuck("Updating");
  const { ensure, of } = world;
  await ensure();
  await expectOnceAfterTenMinutes("InstanceUpdating", world);
  expect(of("InstanceUpdating")[0]).toContain(
    "its provisioning state has been Updating for 10 minutes; its activity log",
  );
});

test("a network interface that is Updating is reported once after ten minutes, and joins its pool when ARM writes it again", async () => {
  await using world = await stuck("Updating");
  const { simulator, nodes, ensure } = world;
  const group = "/subscriptions/sub0/resourceGroups/rg0/providers";
  const nic = `${group}/Microsoft.Network/networkInterfaces/vm-0-nic`;
  const subnet = { id: `${group}/Microsoft.Network/virtualNetworks/vnet0/subnets/subnet0` };
  const ipConfigurations = [{ name: "c", properties: { primary: true, subnet, privateIPAddress: "10.240.0.9" } }];
  const put = (provisioningState: string) =>
    simulator.put(nic, { location: "eastus", properties: { provisioningState, ipConfigurations } });
  put("Updating");
  const networkProfile = { networkInterfaces: [{ id: nic }] };
  const { id } = simulator.put(`${group}/Microsoft.Compute/virtualMachines/vm-0`, {
    location: "eastus",
    properties: { networkProfile },
  });
  nodes.splice(0, 1, nodeOf("vm-0", { providerID: `azure://${id}` }));
  const refusal = { status: 409, code: "OperationNotAllowed", message: "The interface is being updated.", times: 1000 };
  simulator.failNext({ method: "PUT", path: nic }, refusal);
  expect(String(await ensure())).toContain("The interface is being updated.");
  await expectOnceAfterTenMinutes("NetworkInterfaceUpdating", world);
  simulator.clearFailures();
  put("Succeeded");
  expect(await ensure()).toBeUndefined();
  expect(JSON.stringify(simulator.get(nic))).toContain("backendAddressPools/kubernetes");
});

test("an instance in state Failed is reported again if it fails again after a write of it", async () => {
  await using world = await stuck("Failed");
  const { ensure, of, simulator, refuse, remove } = world;
  await ensure();
  simulator.clearFailures();
  expect(await ensure()).toBeUndefined();
  expect(of("InstanceFailed")).toHaveLength(2);
  await remove();
  refuse();
  await ensure();
  expect(of("InstanceFailed")).toHaveLength(4);
});

test("an instance in state Failed that ARM accepts a write of joins its pool, and is not reported", async () => {
  await using world = await stuck("Failed");
  const { ensure, reported } = world;
  world.simulator.clearFailures();
  expect(await ensure()).toBeUndefined();
  expect(reported.filter((text) => text.includes("InstanceFailed"))).toEqual([]);
});

test("an instance that is Updating again an hour later is not reported before ten more minutes", async () => {
  await using world = await stuck("Updating");
  const { jump, ensure, of } = world;
  await ensure();
  jump(60 * minute);
  await ensure();
  expect(of("InstanceUpdating")).toEqual([]);
  jump(9 * minute);
  await ensure();
  jump(2 * minute);
  await ensure();
  expect(of("InstanceUpdating")).toHaveLength(2);
});

test("an instance in state Failed whose write is throttled is not reported", async () => {
  await using world = await stuck("Failed");
  const { simulator, ensure, reported } = world;
  simulator.clearFailures();
  simulator.failNext(
    { method: "PUT", path: "virtualMachines/" },
    { status: 429, code: "TooManyRequests", message: "Too many requests.", times: 1000 },
  );
  expect(String(await ensure())).toContain("throttles");
  expect(reported.filter((text) => text.includes("InstanceFailed"))).toEqual([]);
});

test("an instance in state Failed is reported again after a day without a sync of it", async () => {
  await using world = await stuck("Failed");
  const { jump, ensure, of } = world;
  await ensure();
  jump(23 * 60 * minute);
  await ensure();
  expect(of("InstanceFailed")).toHaveLength(2);
  jump(25 * 60 * minute);
  await ensure();
  expect(of("InstanceFailed")).toHaveLength(4);
});

/** What is reported of one member, as it is found by one sync after another. */
function reporter() {
  const reported: string[] = [];
  const providerID = instanceID(0);
  const node = nodeOf("vmss0000000", { providerID });
  const id = providerID.slice("azure://".length);
  const members = stuckMembers({
    clock: manualClock(),
    events: { event: (_object, _type, reason) => void reported.push(reason) },
    informers: informersOf([node]),
  });
  const found = (state: string | undefined, change: StuckMember["change"] = "join"): void =>
    members.found({ id, kind: "instance", vmId: id, state, change, services: [] });
  return { found, reported };
}

test("a member in state Failed is reported again if it was well in between", () => {
  const { found, reported } = reporter();
  for (const state of ["Failed", "Failed", "Succeeded", "Failed"]) found(state);
  expect(reported).toEqual(["InstanceFailed", "InstanceFailed"]);
});

test("a member in state Failed is reported once as one that cannot join, and once as one that cannot leave", () => {
  const { found, reported } = reporter();
  for (const change of ["join", "leave", "join", "leave"] as const) found("Failed", change);
  expect(reported).toEqual(["InstanceFailed", "InstanceFailed"]);
});
