import { expect, spyOn, test } from "bun:test";

import { PluginParts } from "../../../../host/generation/prepare/plugin-parts.ts";
import { GenerationFence } from "../../../../host/generation/scope/fence.ts";
import { SlotRig } from "../slot-rig.ts";

test("the parts of a controller that is tried again and again leave no listener on the signal of their generation", async () => {
  await using rig = await SlotRig.start();
  const { signal } = new AbortController();
  const [added, removed] = [spyOn(signal, "addEventListener"), spyOn(signal, "removeEventListener")];
  await using undo = new AsyncDisposableStack();
  const parts = new PluginParts(rig.scope, signal, undo);
  for (let attempt = 1; attempt <= 3; attempt++) {
    const part = parts.open(new GenerationFence(() => true));
    part.abort();
    expect(part.resources.signal.aborted).toBe(true);
    expect([added.mock.calls.length, removed.mock.calls.length]).toEqual([attempt, attempt]);
  }
  expect(parts.shares()).toEqual([]);
});
