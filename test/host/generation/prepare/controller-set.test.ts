import { expect, test } from "bun:test";

import type { ControllerPlugin } from "cloud-controller-host/sdk";

import { rejection } from "../../../kit/rejection.ts";
import { main, SlotRig } from "../slot-rig.ts";

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
