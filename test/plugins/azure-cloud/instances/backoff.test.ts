import { describe, expect, test } from "bun:test";

import { InstanceNotFoundError, RetryAfterError } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { errorOf } from "../../../kit/rejection.ts";
import { countOf, nodeOf, openWorld } from "../world.ts";

const interfaceList = "/vmss0/networkInterfaces";
const backoff = {
  cloudProviderBackoff: true,
  cloudProviderBackoffRetries: 4,
  cloudProviderBackoffDuration: 5,
  cloudProviderBackoffExponent: 2,
  // None: 0 stands for the default.
  cloudProviderBackoffJitter: Number.MIN_VALUE,
};

describe("the key cloudProviderBackoff", () => {
  test("repeats a failed lookup of addresses with growing pauses", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const clock = manualClock();
    await using cloud = await world.create(backoff, { clock });
    await cloud.instances.instanceExists(nodeOf("vmss0000000"));
    world.simulator.failNext({ path: interfaceList }, { status: 403, times: 3 });
    const metadata = cloud.instances.instanceMetadata(nodeOf("vmss0000000"));
    for (const pauseMs of [5_000, 10_000, 20_000]) {
      while (clock.sleepers === 0) await Bun.sleep(1);
      await clock.advance(pauseMs - 1);
      expect(clock.sleepers).toBe(1);
      await clock.advance(1);
    }
    expect((await metadata)?.nodeAddresses[0]?.address).toBe("10.240.0.4");
  });

  test("gives up after the configured number of attempts with the last error", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create(backoff);
    await cloud.instances.instanceExists(nodeOf("vmss0000000"));
    world.simulator.failNext({ path: interfaceList }, { status: 403, code: "AuthorizationFailed", times: 99 });
    const error = await errorOf(cloud.instances.instanceMetadata(nodeOf("vmss0000000")));
    expect(error).toMatchObject({ code: "AuthorizationFailed" });
    expect(countOf(world.simulator, interfaceList)).toBe(4);
  });

  test("adds up to cloudProviderBackoffJitter of a pause to it", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const { clock, pauses } = recordingClock();
    await using cloud = await world.create({ ...backoff, cloudProviderBackoffJitter: 1 }, { clock });
    world.simulator.failNext({ path: interfaceList }, { status: 403, times: 99 });
    await errorOf(cloud.instances.instanceMetadata(nodeOf("vmss0000000")));
    expect(pauses).toHaveLength(3);
    for (const [index, pause] of pauses.entries()) {
      expect(pause).toBeGreaterThan(5_000 * 2 ** index);
      expect(pause).toBeLessThan(10_000 * 2 ** index);
    }
  });

  test("is off by default: one attempt", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    await using cloud = await world.create({ ...backoff, cloudProviderBackoff: false });
    await cloud.instances.instanceExists(nodeOf("vmss0000000"));
    world.simulator.failNext({ path: interfaceList }, { status: 403, times: 99 });
    expect(await errorOf(cloud.instances.instanceMetadata(nodeOf("vmss0000000")))).toMatchObject({ status: 403 });
    expect(countOf(world.simulator, interfaceList)).toBe(1);
  });

  test("does not repeat a lookup that ARM delays with Retry-After", async () => {
    await using world = await openWorld();
    await world.simulator.addInstances(1);
    const { clock, pauses } = recordingClock();
    await using cloud = await world.create(backoff, { clock });
    world.simulator.failNext({ path: interfaceList }, { status: 429, headers: { "retry-after": "17" }, times: 2 });
    const error = await errorOf(cloud.instances.instanceMetadata(nodeOf("vmss0000000")));
    expect(error).toBeInstanceOf(RetryAfterError);
    expect(pauses).toEqual([]);
  });

  test("does not repeat a lookup whose network interface does not exist", async () => {
    await using world = await openWorld();
    const nic = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network/networkInterfaces/deleted";
    world.simulator.put("/providers/Microsoft.Compute/virtualMachines/vm", {
      properties: { hardwareProfile: { vmSize: "Basic_A0" }, networkProfile: { networkInterfaces: [{ id: nic }] } },
    });
    const { clock, pauses } = recordingClock();
    await using cloud = await world.create({ ...backoff, vmType: "standard" }, { clock });
    const error = await errorOf(cloud.instances.instanceMetadata(nodeOf("vm")));
    expect(error).toBeInstanceOf(InstanceNotFoundError);
    expect(pauses.filter((pauseMs) => pauseMs >= 5_000)).toEqual([]);
  });

  test("does not repeat a lookup of a VM without a primary network interface or without an address", async () => {
    await using world = await openWorld();
    const nicOf = (name: string): { readonly id: string } =>
      world.simulator.put(`/providers/Microsoft.Network/networkInterfaces/${name}`, {
        properties: { ipConfigurations: [{ name: "ipconfig0", properties: { primary: true } }] },
      });
    const rows = [
      ["undecided", [nicOf("first"), nicOf("second")], "failed to find a primary network interface"],
      ["unaddressed", [nicOf("only")], "has no private address"],
    ] as const;
    const { clock, pauses } = recordingClock();
    await using cloud = await world.create({ ...backoff, vmType: "standard" }, { clock });
    for (const [name, nics, message] of rows) {
      world.simulator.put(`/providers/Microsoft.Compute/virtualMachines/${name}`, {
        properties: {
          hardwareProfile: { vmSize: "Basic_A0" },
          networkProfile: { networkInterfaces: nics.map(({ id }) => ({ id })) },
        },
      });
      const error = await errorOf(cloud.instances.instanceMetadata(nodeOf(name)));
      expect(error).toMatchObject({ code: "IncompleteVM", message: expect.stringContaining(message) });
    }
    expect(pauses.filter((pauseMs) => pauseMs >= 5_000)).toEqual([]);
  });
});

/** A clock on which time stands still and every sleep ends at once. */
function recordingClock() {
  const pauses: number[] = [];
  const stopped = manualClock();
  const sleep = (pauseMs: number): Promise<void> => {
    pauses.push(pauseMs);
    return Promise.resolve();
  };
  return { pauses, clock: { ...stopped, sleep } };
}
