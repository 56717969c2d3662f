import { afterEach, beforeEach, expect, test } from "bun:test";

import { defineCloud, Type } from "cloud-controller-host/sdk";
import { eventually, memoryCloud } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../host/async/clock.ts";
import { Supervisor } from "../../../host/generation/supervisor.ts";
import { pluginsOf } from "../../kit/no-plugins.ts";
import { leading } from "./leading.ts";
import { main, SlotRig } from "./slot-rig.ts";

let rig: SlotRig;
let supervisor: Supervisor;
let leader: AsyncDisposable;
/** The answers of the Lease, one for each read. */
let reads: PromiseWithResolvers<boolean>[];
/** The Lease that each cloud has in its context. */
let leases: (string | undefined)[];

const places = { hash: "abc", removals: ["frontend 1"] };

/** A supervisor whose cloud would remove something with each other `place`; what is confirmed stays unknown. */
beforeEach(async () => {
  reads = [];
  leases = [];
  // A refused reload asks every 5 s; a read that hangs is never given up.
  const sleep = (ms: number, signal?: AbortSignal) => systemClock.sleep(ms === 10_000 ? 60_000 : ms / 100, signal);
  const clock = { ...systemClock, sleep };
  rig = await SlotRig.start({}, clock);
  const cloud = defineCloud({
    name: "memory",
    configSchema: Type.Object({}),
    decode: (value) => ({ ok: true, value, warnings: [] }),
    placement: ({ place }) => place,
    create(_config, { shards }) {
      leases.push(shards?.own);
      return Promise.resolve({ ...memoryCloud().cloud, unrequestedRemovals: async () => places });
    },
  });
  const plugins = pluginsOf({ controllers: [rig.controller("alpha", main)], clouds: [cloud] }, { hash: "one" });
  const confirmations = {
    command: (hash: string) => hash,
    isConfirmed(): Promise<boolean> {
      const answer = Promise.withResolvers<boolean>();
      reads.push(answer);
      return answer.promise;
    },
  };
  const source = { description: "a test", read: async () => "place: 1\n" };
  const loader = { hash: async () => plugins.hash, load: async () => ({ ok: true as const, plugins }) };
  supervisor = new Supervisor({ ...rig.scope, confirmations, shards: { own: "ours" } }, source, loader);
  leader = await leading(supervisor, plugins);
});
afterEach(async () => {
  await leader[Symbol.asyncDispose]();
  await rig[Symbol.asyncDispose]();
});

const change = (text: string): void => supervisor.reload("a change", { text });

async function refused(): Promise<void> {
  const before = reads.length;
  change("place: 2\n");
  await eventually("the preparation asks", () => reads.length > before);
  reads[before]?.resolve(false);
  await eventually("it is refused", () => supervisor.status.lastRefusal?.reason.includes("frontend 1") === true);
  await eventually("the Lease is read again", () => reads.length > before + 1);
}

test("a reload does not wait for a read of the confirmations that hangs", async () => {
  await refused();
  change("place: 1\nother: 1\n");
  await eventually("the next one runs", () => supervisor.status.generation === 3, 5_000);
  expect(supervisor.status.lastRefusal).toBeUndefined();
});

test("a refused reload runs once it is confirmed, although an earlier read of the confirmations has hung", async () => {
  await refused();
  await eventually("it is read again", () => reads.length > 2);
  await eventually("it runs", () => {
    for (const answer of reads.slice(2)) answer.resolve(true);
    return supervisor.status.generation === 3;
  });
});

test("a confirmation that is read after another config runs requests nothing", async () => {
  await refused();
  change("place: 1\nother: 1\n");
  await eventually("the next one runs", () => supervisor.status.generation === 3);
  for (const answer of reads) answer.resolve(true);
  await Bun.sleep(0);
  change("place: 1\nother: 2\n");
  await eventually("the one after it runs", () => supervisor.status.generation > 3);
  expect(rig.lines.filter((line) => line.includes("removals confirmed"))).toEqual([]);
});

test("a config that places resources elsewhere is refused also after the cloud provider was disabled", async () => {
  change("disableCloudProvider: true\n");
  await eventually("it is disabled", () => !supervisor.status.running);
  await refused();
  expect(supervisor.status.running).toBe(false);
  change("place: 1\n");
  await eventually("the former place runs", () => supervisor.status.running);
});

test("a cloud that is to tell what a reload would remove knows the Lease of its deployment, which marks its Services", async () => {
  await refused();
  expect(leases).toEqual(["ours", "ours"]);
});
