import { describe, expect, test } from "bun:test";

import { FencedError, keyOf } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { MetricsRegistry } from "../../../../../host/process/metrics/metrics.ts";
import { ArmError } from "../../../../../plugins/azure-cloud/arm/errors.ts";
import { OutdatedError } from "../../../../../plugins/azure-cloud/arm/writes/write-errors.ts";
import type {
  ReleasePools,
  UpdateMembers,
  Write,
} from "../../../../../plugins/azure-cloud/load-balancer/model/plan-model.ts";
import { Activity } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/activity.ts";
import type { WriteOutcome } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/apply/apply.ts";
import { InFlight } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/in-flight.ts";
import { Outcomes } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/outcomes.ts";
import { Wanted } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/wanted.ts";
import { loggerInto } from "../../world.ts";
import { serviceOf } from "../cluster.ts";
import { world } from "../world.ts";

const services = ["a", "b"].map((name) => serviceOf(name));
const keys = services.map(keyOf);
const network = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
const target = { resourceGroup: "rg0", name: "x", services: keys };
const balancer = { ...target, kind: "put-load-balancer", id: `${network}/loadBalancers/kubernetes`, body: {} } as const;
const publicIP = { ...target, kind: "delete-public-ip", id: `${network}/publicIPAddresses/ip` } as const;
const pool = { ...target, id: `${balancer.id}/backendAddressPools/kubernetes` };
const members: UpdateMembers = {
  ...pool,
  kind: "update-members",
  loadBalancer: "kubernetes",
  family: "IPv4",
  join: ["node-0"],
  leave: [],
};
const release: ReleasePools = { ...pool, kind: "release-pools", poolIds: [pool.id] };

function fixture() {
  const clock = manualClock();
  const stop = new AbortController();
  const metrics = new MetricsRegistry();
  const log = loggerInto([]);
  const inFlight = new InFlight(clock);
  const entries = services.map((service) => new Wanted({ service, action: "ensure", nodes: [] }));
  const events: string[] = [];
  const madeUp: string[] = [];
  const moved: string[] = [];
  let ticks = 0;
  const outcomes = new Outcomes({
    activity: new Activity({ clock, log, metrics: metrics.root, signal: stop.signal }),
    context: {
      signal: stop.signal,
      log,
      events: { event: (subject, _type, reason) => void events.push(`${subject.metadata?.name} ${reason}`) },
    },
    wanted: new Map(entries.map((entry) => [entry.key, entry])),
    inFlight,
    tickSoon: () => void (ticks += 1),
    unended: { lost: () => undefined },
    followUp: (id) => void madeUp.push(id),
    moved: ({ id }) => void moved.push(id),
  });
  const take = (outcome: WriteOutcome): Promise<void> => outcomes.take(inFlight.start(outcome.write, world()), outcome);
  const failures = (): readonly string[] => entries.flatMap(({ failure }) => failure?.error ?? []).map(String);
  const counted = async () => {
    const samples = await metrics.samples("cloudprovider_azure_load_balancer_writes_total");
    return samples.map(({ labels, value }) => `${labels["kind"]} ${value}`);
  };
  return {
    clock,
    stop,
    inFlight,
    entries,
    events,
    madeUp,
    moved,
    outcomes,
    take,
    failures,
    counted,
    ticks: () => ticks,
  };
}

describe("a write of members", () => {
  test("outdates what was read of its load balancer if it has changed anything", async () => {
    const { outcomes, take, entries } = fixture();
    await take({ kind: "written", write: members, requests: 0 });
    expect(outcomes.outdated.has(balancer)).toBe(false);
    await take({ kind: "written", write: members, requests: 2 });
    expect(outcomes.outdated.has(balancer)).toBe(true);
    expect(entries.map((entry) => entry.isDone(members))).toEqual([true, true]);
    await take({ kind: "written", write: balancer, requests: 1 });
    expect(outcomes.outdated.has(balancer)).toBe(false);
    await take({ kind: "failed", write: members, error: new Error("No.") });
    expect(outcomes.outdated.has(members)).toBe(true);
    expect(outcomes.outdated.take()).toEqual([balancer.id.toLowerCase()]);
  });

  test("a write of members that leaves an instance in flight is made up for later, and outdates the load balancer once more at its end", async () => {
    const { outcomes, take, inFlight, madeUp, entries, ticks } = fixture();
    const end = Promise.withResolvers<unknown>();
    await take({ kind: "unfinished", write: members, requests: 1, ends: [end.promise] });
    expect([madeUp, inFlight.size, ticks()]).toEqual([[members.id], 1, 0]);
    expect(inFlight.isFree(balancer, world(), [])).toBe(true);
    expect(entries.map((entry) => entry.isDone(members))).toEqual([true, true]);
    outcomes.outdated.take();
    end.resolve(undefined);
    await Bun.sleep(1);
    expect([outcomes.outdated.has(balancer), inFlight.size, ticks()]).toEqual([true, 0, 1]);
    // The instance may have waited for its scale set, and not be written at all.
    expect(entries.map((entry) => entry.isDone(members))).toEqual([false, false]);
  });

  test("an instance in flight is made up for once per pool, and another one of the same pool as well", async () => {
    const { take, madeUp } = fixture();
    const [one, other] = [Promise.withResolvers<unknown>(), Promise.withResolvers<unknown>()];
    const leave = async (ends: readonly Promise<unknown>[], id = members.id): Promise<number> => {
      await take({ kind: "unfinished", write: { ...members, id }, requests: 1, ends });
      return madeUp.length;
    };
    expect(await leave([one.promise])).toBe(1);
    expect(await leave([one.promise], members.id.toUpperCase())).toBe(1);
    expect(await leave([one.promise, other.promise])).toBe(2);
    expect(await leave([other.promise])).toBe(2);
    expect(await leave([other.promise], `${members.id}-IPv6`)).toBe(3);
  });

  test("requests that a write of members shares with another one are counted once, and change its Services and nodes as well", async () => {
    const { take, counted, entries, moved, outcomes } = fixture();
    await take({ kind: "written", write: members, requests: 2, shared: true });
    await take({ kind: "unfinished", write: members, requests: 2, shared: true, ends: [] });
    expect([await counted(), moved, outcomes.outdated.has(members)]).toEqual([[], [members.id], true]);
    for (const entry of entries) entry.finish({}, true);
    const reconciled = Promise.all(entries.map((entry) => entry.wait(undefined, () => undefined)));
    for (const entry of entries) entry.settle(undefined);
    expect((await reconciled).map(({ writes }) => writes)).toEqual([4, 4]);
    await take({ kind: "written", write: members, requests: 2 });
    expect(await counted()).toEqual(["update-members 2"]);
  });

  test("a write of members that takes them away before a deletion is waited for to its end", async () => {
    const { take, inFlight, madeUp } = fixture();
    const end = Promise.withResolvers<unknown>();
    const work = take({ kind: "unfinished", write: release, requests: 1, ends: [end.promise] });
    await Bun.sleep(1);
    expect([madeUp, inFlight.isFree(balancer, world(), [])]).toEqual([[], false]);
    end.resolve(undefined);
    await work;
    expect(inFlight.isFree(balancer, world(), [])).toBe(true);
  });

  test("a write of members that fails is an error of its Services once all else is done", async () => {
    const { take, failures, entries } = fixture();
    await take({ kind: "failed", write: members, error: new Error("No VM.") });
    expect(failures()).toEqual([]);
    for (const entry of entries) entry.finish({}, true);
    expect(failures()).toEqual(["Error: No VM.", "Error: No VM."]);
  });
});

describe("a conflict", () => {
  const outcome: WriteOutcome = { kind: "conflict", write: balancer, error: new OutdatedError("It has changed.") };

  test("is an error of the Services of the write only after the fifth in a row", async () => {
    const { take, failures } = fixture();
    for (let count = 0; count < 4; count++) await take(outcome);
    await take({ kind: "written", write: balancer, requests: 1 });
    for (let count = 0; count < 4; count++) await take(outcome);
    expect(failures()).toEqual([]);
    await take(outcome);
    expect(failures()).toEqual(["Error: It has changed.", "Error: It has changed."]);
  });

  test("about a public IP that something else keeps using is reported in the end, and no error", async () => {
    const { take, failures, entries, events } = fixture();
    const cause = new ArmError(400, "PublicIPAddressCannotBeDeleted", "It is in use.");
    const error = new OutdatedError("It is in use.", { cause });
    for (let count = 0; count < 5; count++) await take({ kind: "conflict", write: publicIP, error });
    expect(failures()).toEqual([]);
    expect(entries.map((entry) => entry.isDone(publicIP))).toEqual([true, true]);
    expect(events).toEqual(["a DeletePublicIPAddress", "b DeletePublicIPAddress"]);
  });

  test("about anything else that ARM refuses is an error in the end", async () => {
    const { take, failures } = fixture();
    const cause = new ArmError(409, "ReferencedResourceNotProvisioned", "It is not ready.");
    const error = new OutdatedError("It was not provisioned.", { cause });
    for (let count = 0; count < 5; count++) await take({ kind: "conflict", write: balancer, error });
    expect(failures()).toEqual(["Error: It was not provisioned.", "Error: It was not provisioned."]);
  });
});

describe("a write that fails", () => {
  const rejection = new ArmError(400, "InvalidResource", "No.");
  const failed = (write: Write, error: unknown): WriteOutcome => ({ kind: "failed", write, error });
  const alone = { ...balancer, services: keys.slice(0, 1) };

  test("a write that fails because the fence is closed, or the process stops, ends every Service", async () => {
    const fenced = fixture();
    await fenced.take(failed(alone, new FencedError("ARM", "the lease is lost")));
    expect(fenced.failures()).toHaveLength(2);
    const stopped = fixture();
    stopped.stop.abort();
    await stopped.take(failed(alone, new Error("aborted")));
    expect(stopped.failures()).toHaveLength(2);
  });

  test("a write that fails for another reason is an error of its own Services", async () => {
    const { take, failures } = fixture();
    await take(failed(alone, new Error("Broken.")));
    expect(failures()).toEqual(["Error: Broken."]);
  });

  test("a write that fails because ARM rejects it is repeated in parts, and is an error of the one that is alone", async () => {
    const { take, failures, outcomes } = fixture();
    await take(failed(balancer, rejection));
    expect([failures(), keys.map((key) => outcomes.rejections.isWaiting(key))]).toEqual([[], [false, true]]);
    await take(failed(alone, rejection));
    expect(failures()).toHaveLength(1);
  });

  test.each([
    [
      "is remembered for all of its Services if another one may have to leave a public IP first",
      "PublicIPAddressInUse",
      true,
    ],
    ["is not remembered if ARM rejects it for anything else", "InvalidResource", false],
  ])("a write that fails %s", async (_, code, isKnown) => {
    const { take, outcomes, entries } = fixture();
    await take(failed(balancer, new ArmError(400, code, "No.")));
    const ids = isKnown ? [balancer.id.toLowerCase()] : [];
    expect(entries.map(({ intent }) => [...(outcomes.withFailures(intent).failed ?? [])])).toEqual([ids, ids]);
  });

  test("a write that fails although it repeats what is there is an error of all, because none is at fault", async () => {
    const { take, failures } = fixture();
    await take(failed({ ...balancer, repeats: true }, rejection));
    expect(failures()).toHaveLength(2);
  });

  test("has an event of upstream's for its kind, for the Services that fail", async () => {
    const first = fixture();
    const put = { ...alone, kind: "put-public-ip", id: publicIP.id, body: {} } as const;
    await first.take(failed(put, rejection));
    await first.take(failed(put, rejection));
    expect(first.events).toEqual(["a CreateOrUpdatePublicIPAddress"]);
    const second = fixture();
    await second.take(failed({ ...alone, kind: "delete-load-balancer" }, new Error("Broken.")));
    await second.take(failed(alone, new Error("Broken.")));
    expect(second.events).toEqual(["a DeleteLoadBalancer"]);
  });

  test("a write that fails because a public IP is in use leaves it, with an event", async () => {
    const { take, failures, entries, events } = fixture();
    await take(failed(publicIP, new ArmError(400, "PublicIPAddressCannotBeDeleted", "It is in use.")));
    expect([failures(), entries.map((entry) => entry.isDone(publicIP)), events.length]).toEqual([[], [true, true], 2]);
  });
});

describe("nodes have moved", () => {
  test("once a write of members has changed something, and not when it has failed", async () => {
    const { take, moved } = fixture();
    await take({ kind: "written", write: members, requests: 0 });
    await take({ kind: "failed", write: members, error: new Error("No.") });
    await take({ kind: "conflict", write: members, error: new OutdatedError("It has changed.") });
    expect(moved).toEqual([]);
    await take({ kind: "written", write: members, requests: 1 });
    expect(moved).toEqual([members.id]);
  });

  test("not with a write of anything else", async () => {
    const { take, moved } = fixture();
    for (const write of [balancer, publicIP]) await take({ kind: "written", write, requests: 1 });
    expect(moved).toEqual([]);
  });

  test("once for an instance in flight, however many plans find it", async () => {
    const { take, moved } = fixture();
    const ends = [Promise.resolve(undefined)];
    for (let plans = 0; plans < 3; plans += 1) await take({ kind: "unfinished", write: members, requests: 1, ends });
    await Bun.sleep(1);
    expect(moved).toEqual([members.id]);
  });

  test.each<[string, unknown, string[]]>([
    ["once the last instance in flight has joined", undefined, [members.id]],
    ["not when the last instance in flight has failed", new Error("No VM."), []],
  ])("%s", async (_, result, expected) => {
    const { take, moved } = fixture();
    const end = Promise.withResolvers<unknown>();
    await take({ kind: "unfinished", write: members, requests: 1, ends: [end.promise] });
    await Bun.sleep(1);
    expect(moved).toEqual([]);
    end.resolve(result);
    await Bun.sleep(1);
    expect(moved).toEqual(expected);
  });
});
