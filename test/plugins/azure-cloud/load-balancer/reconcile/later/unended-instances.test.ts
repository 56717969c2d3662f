import { expect, test } from "bun:test";

import type { CloudContext } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import type { Observed } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { UnendedInstances } from "../../../../../../plugins/azure-cloud/load-balancer/reconcile/later/unended-instances.ts";
import { capturedLog } from "../../../../../host/kube/captured-log.ts";
import { usersBalancer, world } from "../../world.ts";

const group = "/subscriptions/sub0/resourceGroups/rg0/providers";
const instance = (id: number): string =>
  `${group}/Microsoft.Compute/virtualMachineScaleSets/vmss0/virtualMachines/${id}`;
const configuration = (id: number): string => `${instance(id)}/networkInterfaces/nic0/ipConfigurations/ipConfig0`;
const member = (ipConfigurationId: string, node?: string) => ({ ipConfigurationId, node, gone: false, complete: true });

const ignore = (): void => undefined;

const networkInterface = `${group}/Microsoft.Network/networkInterfaces/nic`;

/** Instances 0 and 1 of nodes are in two pools; so are instance 2, whose node is away, and an interface. */
const observed: Observed = world({
  loadBalancers: [usersBalancer("one"), usersBalancer("two")],
  poolMembers: new Map([
    ["one", [member(configuration(0), "node-0"), member(configuration(1), "node-1"), member(configuration(2))]],
    ["two", [member(configuration(0), "node-0"), member(`${networkInterface}/ipConfigurations/one`, "node-3")]],
  ]),
});

interface LabOptions {
  /** Ids that are unended at the first read, the second, and so on; the last one stays. An error fails the read. */
  readonly reads: readonly (readonly number[] | Error)[];
  readonly errors?: readonly unknown[];
  readonly planning?: CloudContext["planning"];
  /** Instances whose writes fail before each observation. */
  readonly abandoned?: (readonly number[])[];
}

function open({ reads, errors = [], planning, abandoned = [] }: LabOptions) {
  const clock = manualClock();
  const stop = new AbortController();
  const { log, lines } = capturedLog();
  const seconds = (): number => clock.monotonic() / 1000;
  const asked: (readonly [atSeconds: number, freshness: string, ids: readonly string[]])[] = [];
  const outdated: string[] = [];
  const refreshes: number[] = [];
  const unended = new UnendedInstances({
    context: { clock, signal: stop.signal, log, ...(planning && { planning }) },
    reads: {
      async unended(ids, freshness) {
        asked.push([seconds(), freshness, ids]);
        const read = reads[Math.min(asked.length, reads.length) - 1] ?? [];
        if (read instanceof Error) throw read;
        return read.map(instance);
      },
    },
    outdate: (id) => void outdated.push(id.slice(id.lastIndexOf("/") + 1)),
    refresh: async () => errors[refreshes.push(seconds()) - 1],
  });
  const advance = async (amount: number): Promise<void> => {
    await clock.advance(0);
    await clock.advance(amount * 1000);
  };
  const seen = (): void => {
    for (const id of abandoned.shift() ?? []) unended.abandon(instance(id));
    unended.seen(observed);
  };
  return { advance, stop, lines, asked, outdated, refreshes, unended, seen };
}

test("instances and network interfaces whose operation a former process began, with a node or without, are read until it has ended, and then all Services are planned", async () => {
  const { advance, asked, outdated, refreshes, unended } = open({ reads: [[1], [1], [], []] });
  unended.seen(observed);
  unended.seen(world({ loadBalancers: [usersBalancer("three")] }));
  await advance(3600);
  const all = [instance(0), instance(1), instance(2), networkInterface];
  expect(asked).toEqual([
    [0, "cached", all],
    [30, "fresh", [instance(1)]],
    [90, "fresh", [instance(1)]],
  ]);
  expect([outdated, refreshes]).toEqual([["three"], [90]]);
});

test("instances of which no operation is in progress at the start are not read again", async () => {
  const { advance, asked, refreshes, unended } = open({ reads: [[]] });
  for (let count = 0; count < 2; count += 1) unended.seen(observed);
  await advance(3600);
  expect([asked.length, refreshes]).toEqual([1, []]);
});

test("an operation on an instance that takes hours costs a read in five minutes, and those that end a plan each", async () => {
  const { advance, asked, refreshes, unended } = open({ reads: [[0, 1], [0, 1], [0], [0]] });
  unended.seen(observed);
  await advance(3600);
  expect(asked.slice(0, 6).map(([at]) => at)).toEqual([0, 30, 90, 210, 450, 750]);
  expect(asked).toHaveLength(15);
  expect(refreshes).toEqual([90]);
});

test("instances that cannot be read are read again later", async () => {
  const { advance, asked, refreshes, unended } = open({ reads: [new Error("503"), [0], new Error("503"), []] });
  unended.seen(observed);
  await advance(3600);
  expect(asked.map(([at, freshness, ids]) => [at, freshness, ids.length])).toEqual([
    [0, "cached", 4],
    [30, "cached", 4],
    [90, "fresh", 1],
    [210, "fresh", 1],
  ]);
  expect(refreshes).toEqual([210]);
});

test("Services that cannot be planned after an operation on an instance are planned again, with the error in the log", async () => {
  const { advance, lines, refreshes, unended } = open({ reads: [[0], []], errors: [new Error("throttled")] });
  unended.seen(observed);
  await advance(3600);
  expect(refreshes).toEqual([30, 90]);
  expect(JSON.stringify(lines())).toContain("throttled");
});

test("operations on instances are followed neither for a plan nor after the end of the process", async () => {
  const plan = open({ reads: [[0]], planning: { record: ignore, unknown: ignore, hold: ignore, inFlight: ignore } });
  plan.unended.seen(observed);
  await plan.advance(60);
  expect(plan.asked).toEqual([]);
  const ended = open({ reads: [[0]] });
  ended.unended.seen(observed);
  await ended.advance(10);
  ended.stop.abort();
  await ended.advance(3600);
  expect(ended.asked).toHaveLength(1);
});

test("an instance whose write has failed while its operation continues is read until that has ended, and then all Services are planned", async () => {
  const { advance, asked, refreshes, seen } = open({ reads: [[], [2], [2], []], abandoned: [[], [2]] });
  for (let count = 0; count < 3; count += 1) seen();
  await advance(3600);
  expect(asked.slice(1)).toEqual([
    [0, "fresh", [instance(2)]],
    [30, "fresh", [instance(2)]],
    [90, "fresh", [instance(2)]],
  ]);
  expect(refreshes).toEqual([90]);
  // It is not followed again.
  seen();
  await advance(3600);
  expect(asked).toHaveLength(4);
});

test("all Services are planned when the operation of a failed write has ended before it is looked at", async () => {
  const { advance, asked, refreshes, seen } = open({ reads: [[], []], abandoned: [[], [2]] });
  for (let count = 0; count < 2; count += 1) seen();
  await advance(3600);
  expect([asked.length, refreshes]).toEqual([2, [0]]);
});

test("an instance that is abandoned again while it is followed is read by one loop, and by another one once that has ended", async () => {
  const { advance, asked, seen } = open({ reads: [[], [2], [2], [], []], abandoned: [[], [2], [2], [2]] });
  for (let count = 0; count < 3; count += 1) seen();
  await advance(3600);
  expect(asked.slice(1).map(([at]) => at)).toEqual([0, 30, 90]);
  seen();
  await advance(3600);
  expect(asked.slice(4).map(([at]) => at)).toEqual([3600]);
});
