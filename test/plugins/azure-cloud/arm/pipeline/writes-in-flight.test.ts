import { expect, spyOn, test } from "bun:test";

import { createHttpHeaders, createPipelineRequest } from "@azure/core-rest-pipeline";
import { FencedError } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../../../host/async/clock.ts";
import { WritesInFlight } from "../../../../../plugins/azure-cloud/arm/pipeline/writes-in-flight.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { instanceID, nodeOf, openWorld } from "../../world.ts";

const networkPath = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
const publicIP = { location: "eastus", sku: { name: "Standard" }, publicIPAllocationMethod: "Static" };

/** A generation that is asked to end while ARM has a write of a public IP that it has not answered. */
async function endedInFlight() {
  const world = await openWorld();
  const clock = manualClock();
  const generation = new AbortController();
  const { network, writes } = await world.clients({}, { clock, context: { signal: generation.signal } });
  const held = world.simulator.hold({ method: "PUT", path: "/publicIPAddresses/late" }, "request");
  const write = errorOf(network.publicIPAddresses.createOrUpdate("rg0", "late", publicIP));
  let isSettled = false;
  const settled = writes.settled(generation.signal).then(() => void (isSettled = true));
  await eventually("the request is held", () => held.waiting() === 1);
  generation.abort(new Error("the generation ends"));
  return { world, clock, held, write, settled, isSettled: () => isSettled, ...world };
}

test("a write that ARM has received is waited for when its generation ends", async () => {
  await using ended = await endedInFlight();
  await ended.clock.advance(9_000);
  expect(ended.isSettled()).toBe(false);
  ended.held.release();
  await ended.settled;
  expect(ended.world.simulator.get(`${networkPath}/publicIPAddresses/late`)).toMatchObject({ name: "late" });
  await ended.write;
  expect(ended.clock.sleepers).toBe(0);
});

test("a write without a reply is cut off ten seconds after the end of its generation", async () => {
  await using ended = await endedInFlight();
  await ended.clock.advance(10_000);
  await ended.settled;
  expect(await ended.write).toMatchObject({ message: "the generation ends" });
});

test("a write of a generation that is to end is cut off as its fence closes", async () => {
  await using ended = await endedInFlight();
  ended.world.closeFence();
  await ended.settled;
  expect(await ended.write).toBeInstanceOf(FencedError);
});

test("a write that was not sent before the end of its generation is not sent any more", async () => {
  const writes = new WritesInFlight(manualClock());
  const request = createPipelineRequest({
    url: "https://management.example/late",
    method: "PUT",
    abortSignal: AbortSignal.abort(new Error("the generation ends")),
  });
  let sent = 0;
  const send = async () => {
    sent += 1;
    return { request, status: 200, headers: createHttpHeaders() };
  };
  expect(await errorOf(writes.send(request, send, new AbortController().signal))).toMatchObject({
    message: "the generation ends",
  });
  expect(sent).toBe(0);
});

test("a read ends with its generation", async () => {
  await using world = await openWorld();
  const generation = new AbortController();
  const { network } = await world.clients({}, { context: { signal: generation.signal } });
  const held = world.simulator.hold({ method: "GET", path: "/publicIPAddresses/any" }, "request");
  const read = errorOf(network.publicIPAddresses.get("rg0", "any"));
  await eventually("the request is held", () => held.waiting() === 1);
  generation.abort(new Error("the generation ends"));
  expect(await read).toMatchObject({ message: "the generation ends" });
});

test("the cloud runs until ARM has answered its last write", async () => {
  await using world = await openWorld();
  await world.simulator.addInstances(1);
  const node = nodeOf("vmss0000000", { providerID: instanceID(0) });
  world.nodes.push(node);
  const generation = new AbortController();
  const context = { signal: generation.signal };
  const cloud = await world.create({ routeTableName: "rt0" }, { clock: systemClock, context });
  let hasReturned = false;
  const run = cloud.run?.(generation.signal).then(() => void (hasReturned = true));
  const held = world.simulator.hold({ method: "PUT", path: "/routeTables/rt0" }, "request");
  const route = { name: "", targetNode: "vmss0000000", destinationCIDR: "10.244.0.0/24" };
  const creation = errorOf(cloud.routes.createRoute("kubernetes", "", route));
  await eventually("the request is held", () => held.waiting() === 1);
  generation.abort(new Error("the generation ends"));
  await Bun.sleep(20);
  expect(hasReturned).toBe(false);
  held.release();
  await run;
  expect(world.simulator.get(`${networkPath}/routeTables/rt0`)).toMatchObject({ name: "rt0" });
  await creation;
});

test("writes that have ended leave nothing on the signal of their sender, which outlives thousands of them", async () => {
  const writes = new WritesInFlight(manualClock());
  const sender = new AbortController();
  const [added, removed] = [spyOn(sender.signal, "addEventListener"), spyOn(sender.signal, "removeEventListener")];
  const request = createPipelineRequest({
    url: "https://management.example/one",
    method: "PUT",
    abortSignal: sender.signal,
  });
  const reply = { request, status: 200, headers: createHttpHeaders() };
  await writes.send(request, async () => reply, new AbortController().signal);
  await errorOf(writes.send(request, () => Promise.reject(new Error("refused")), new AbortController().signal));
  const listeners = (spy: typeof added | typeof removed): readonly unknown[] => spy.mock.calls.map(([, what]) => what);
  expect(listeners(added).length).toBeGreaterThanOrEqual(2);
  expect(listeners(removed)).toEqual(expect.arrayContaining([...listeners(added)]));
});
