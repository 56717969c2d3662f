import { expect, test } from "bun:test";

import { LinkedSignal } from "../../../host/async/linked-signal.ts";

const source = () => {
  const controller = new AbortController();
  return { controller, signal: controller.signal };
};

test("a linked signal aborts with the reason of the source that aborts, also when that happened before", () => {
  const [first, second] = [source(), source()];
  using link = new LinkedSignal(first.signal, undefined, second.signal);
  expect(link.signal.aborted).toBe(false);
  second.controller.abort("second");
  first.controller.abort("first");
  expect(link.signal.reason).toBe("second");
  using late = new LinkedSignal(undefined, second.signal);
  expect(late.signal.reason).toBe("second");
});

test("a linked signal follows no source and meets no deadline once it is released", async () => {
  const { controller, signal } = source();
  const link = new LinkedSignal(signal);
  link.setDeadline(1, () => "late");
  link.release();
  controller.abort("stopped");
  await Bun.sleep(20);
  expect(link.signal.aborted).toBe(false);
});

test("a linked signal has one deadline: a later one replaces it, and it can be taken back", async () => {
  using link = new LinkedSignal();
  link.setDeadline(1, () => "first");
  link.setDeadline(60_000, () => "second");
  await Bun.sleep(20);
  expect(link.signal.aborted).toBe(false);
  link.setDeadline(1, () => "third");
  await Bun.sleep(20);
  expect(link.signal.reason).toBe("third");
  using other = new LinkedSignal();
  other.setDeadline(1, () => "fourth");
  other.clearDeadline();
  await Bun.sleep(20);
  expect(other.signal.aborted).toBe(false);
});
