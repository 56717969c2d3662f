import { describe, expect, test } from "bun:test";

import { FencedError } from "cloud-controller-host/sdk";

import { GenerationFence } from "../../../../host/generation/scope/fence.ts";

describe("the fence of a generation", () => {
  test("refuses writes until the generation runs", () => {
    const fence = new GenerationFence(() => true);
    expect(() => fence.check("PATCH nodes/a")).toThrow(FencedError);
    fence.open();
    expect(() => fence.check("PATCH nodes/a")).not.toThrow();
  });

  test("closes while the lease is not safely held, and opens again when it is", () => {
    let held = true;
    const fence = new GenerationFence(() => held);
    fence.open();
    held = false;
    expect(fence.closed).toBe(true);
    expect(() => fence.check("PUT nodes/a")).toThrow(
      "PUT nodes/a refused: the leader election lease is not safely held",
    );
    held = true;
    expect(fence.closed).toBe(false);
  });

  test("stays closed once closed by a stop, and aborts writes in flight", () => {
    const fence = new GenerationFence(() => true);
    fence.open();
    fence.close();
    fence.open();
    expect(fence.closed).toBe(true);
    expect(fence.signal.aborted).toBe(true);
  });
});
