import { expect, test } from "bun:test";

import { anySignal, releaseSignals } from "./signals.ts";

const count = 200;

/** Signals that follow a long-lived one, each with a listener; only the result refers to them. */
function followersOf(source: AbortSignal): readonly WeakRef<AbortSignal>[] {
  return Array.from({ length: count }, () => {
    const signal = anySignal([source]);
    signal.addEventListener("abort", () => signal.aborted);
    return new WeakRef(signal);
  });
}

async function collect(): Promise<void> {
  for (let round = 0; round < 3; round += 1) {
    await Bun.sleep(1);
    Bun.gc(true);
  }
}

test("the signals of a world that has ended are collected", async () => {
  const { signal } = new AbortController();
  const followers = followersOf(signal);
  await collect();
  expect(followers.every((one) => one.deref() !== undefined)).toBe(true);
  releaseSignals();
  await collect();
  // Some may still be found on the stack.
  expect(followers.filter((one) => one.deref() !== undefined).length).toBeLessThan(count / 4);
});

test("a signal that follows others aborts with the first of them, and only listeners that were not removed hear of it", () => {
  const [one, other] = [new AbortController(), new AbortController()];
  const signal = anySignal([one.signal, other.signal]);
  const heard: string[] = [];
  const removed = (): void => void heard.push("removed");
  signal.addEventListener("abort", removed);
  signal.addEventListener("abort", () => void heard.push("kept"), { once: true });
  signal.removeEventListener("abort", removed);
  other.abort("why");
  expect([signal.reason, heard]).toEqual(["why", ["kept"]]);
});
