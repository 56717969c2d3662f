import { expect, test } from "bun:test";

import {
  type ControllerPlugin,
  defineController,
  type InitFuncConstructor,
  kinds,
  skipped,
} from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { prepare } from "../../../../host/generation/prepare/prepare.ts";
import { rejection } from "../../../kit/rejection.ts";
import { main, SlotRig, untilAborted } from "../slot-rig.ts";

/** The controller with an init that has this outcome, in JSON: that of JavaScript may be anything. */
const returning = (controller: ControllerPlugin, outcome: string): ControllerPlugin => ({
  ...controller,
  bind: () => ({ ok: true, value: () => () => JSON.parse(outcome), warnings: [] }),
});

test.each([
  ["null", "null"],
  ["a word", '"skipped"'],
  ["a run that is not a function", '{ "run": true }'],
  ["a reason that is not text", '{ "skipped": true }'],
])("an init that returns %s refuses the generation with the name of its controller", async (_, outcome) => {
  await using rig = await SlotRig.start();
  expect(await rejection(rig.install(returning(rig.controller("odd", main), outcome)))).toContain(
    'controller "odd": init must return { run(signal) } or skipped("reason")',
  );
});

test("a construct that returns a controller in place of its init refuses the generation with what to return", async () => {
  await using rig = await SlotRig.start();
  // As in JavaScript, where nothing checks the type.
  const construct: InitFuncConstructor = () => JSON.parse("{}");
  expect(await rejection(rig.install(defineController({ name: "odd", construct })))).toContain(
    'controller "odd" cannot be initialized: construct must return the init function: construct: () => (context) =>',
  );
});

/** A controller that is skipped, with a run that notes how many ConfigMaps its informer has as it begins. */
const watching = (rig: SlotRig, sizes: number[]): ControllerPlugin => ({
  ...rig.controller("idle", main),
  bind: () => ({
    ok: true,
    warnings: [],
    value: () => (context) => {
      const { store } = context.informers.of(kinds.ConfigMap);
      return skipped("nothing to do", async (signal) => {
        sizes.push(store.size);
        await untilAborted(signal);
      });
    },
  }),
});

test.each([
  ["begins when the informers of its init have synced, which nothing else waits for", 500, [1]],
  ["does not begin when the generation ends before that", 60_000, []],
] as const)("what runs in place of a skipped controller %s", async (_, latencyMs, wanted) => {
  await using rig = await SlotRig.start();
  const led = rig.lead();
  await rig.install(rig.controller("alpha", main));
  rig.api.create(kinds.ConfigMap, { metadata: { name: "c", namespace: "default" } });
  rig.api.faults.latency(latencyMs);
  const sizes: number[] = [];
  await rig.install(rig.controller("alpha", main), watching(rig, sizes));
  expect([rig.slot.active?.number, sizes]).toEqual([2, []]);
  if (wanted.length > 0) await eventually("it runs", () => sizes.length > 0);
  rig.stop();
  await led;
  expect(sizes).toEqual([...wanted]);
});

test("a controller that cannot be created because the preparation was ended is not refused", async () => {
  await using rig = await SlotRig.start();
  const config = { source: "a test", document: {}, disabled: false, hash: "hash" };
  const spec = { plugins: rig.plugins([rig.controller("alpha", main)]), config };
  const newer = new AbortController();
  rig.createController = () => {
    newer.abort(new Error("a newer change arrived"));
    return Promise.reject(new Error("boom"));
  };
  const parts = { scope: rig.scope, report: rig.report.runs, number: 1, spec, signal: newer.signal };
  const preparing = prepare({ ...parts, mayLeaveOut: () => true, mayRetry: () => true });
  expect(await rejection(preparing)).toContain("a newer change arrived");
  expect(rig.announced).toEqual([]);
});
