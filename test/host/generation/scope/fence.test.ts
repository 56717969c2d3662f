import { describe, expect, test } from "bun:test";

import { FencedError } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { ControllerFence, GenerationFence } from "../../../../host/generation/scope/fence.ts";

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

describe("the fence of a controller", () => {
  const opened = (): GenerationFence => {
    const fence = new GenerationFence(() => true);
    fence.open();
    return fence;
  };

  test("closes alone once the controller has failed, and cuts off its writes and no other's", () => {
    const outer = opened();
    const [failed, other] = [new ControllerFence(outer), new ControllerFence(outer)];
    failed.close();
    expect([failed.closed, failed.signal.aborted]).toEqual([true, true]);
    expect([outer.closed, other.closed, other.signal.aborted]).toEqual([false, false, false]);
    expect(() => failed.check("PUT nodes/a")).toThrow("PUT nodes/a refused: its controller has failed");
    expect(() => other.check("PUT nodes/a")).not.toThrow();
  });

  test("closes with the fence of its generation", () => {
    const outer = opened();
    const fence = new ControllerFence(outer);
    outer.close();
    expect([fence.closed, fence.signal.aborted]).toEqual([true, true]);
    expect(() => fence.check("PUT nodes/a")).toThrow("its generation has ended");
  });

  test("is quiet when the cloud calls that it let begin have settled, however they did", async () => {
    const fence = new ControllerFence(opened());
    const call = Promise.withResolvers<void>();
    const calling = fence.cloudWrite("cloud call a", () => call.promise).catch(() => "failed");
    let quiet = false;
    const waiting = fence.quiet().then(() => (quiet = true));
    await Promise.resolve();
    expect(quiet).toBe(false);
    call.reject(new Error("boom"));
    await waiting;
    expect(await calling).toBe("failed");
    fence.close();
    await expect(fence.cloudWrite("cloud call b", () => Promise.resolve())).rejects.toThrow("cloud call b refused");
  });

  test("holds no cloud call that has settled", async () => {
    const fence = new ControllerFence(opened());
    const calls: WeakRef<Promise<void>>[] = [];
    for (let index = 0; index < 100; index++)
      await fence.cloudWrite("cloud call", () => {
        const call = Bun.sleep(0);
        calls.push(new WeakRef(call));
        return call;
      });
    await eventually("most are collected", () => {
      Bun.gc(true);
      return calls.filter((call) => call.deref() !== undefined).length < 10;
    });
    await fence.quiet();
  });
});
