import { describe, expect, test } from "bun:test";

import type { Node } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../host/async/clock.ts";
import { ConcurrentChecks } from "../../../plugins/lifecycle/concurrent-checks.ts";

const nodes = (...names: readonly string[]): readonly Node[] => names.map((name) => ({ metadata: { name } }));
const makeChecks = (concurrency: number, timeoutMs = 5): ConcurrentChecks =>
  new ConcurrentChecks({ clock: systemClock, concurrency, timeoutMs });
const never = new AbortController().signal;

describe("concurrent checks", () => {
  test("starts no second check of a node while the first one runs", async () => {
    const checks = makeChecks(4);
    const slow = Promise.withResolvers<void>();
    const started: string[] = [];
    const check = async ({ metadata }: Node): Promise<void> => {
      started.push(metadata?.name ?? "");
      if (metadata?.name === "slow") await slow.promise;
    };
    await checks.run(nodes("slow", "fast"), never, check);
    await checks.run(nodes("slow", "fast"), never, check);
    expect(started).toEqual(["slow", "fast", "fast"]);
    slow.resolve();
    await checks.drain();
    await checks.run(nodes("slow"), never, check);
    expect(started).toEqual(["slow", "fast", "fast", "slow"]);
  });

  test("replaces a check that still waits, in its place and with the newer node", async () => {
    const checks = makeChecks(1);
    const slow = Promise.withResolvers<void>();
    const done: string[] = [];
    const named = (what: string) => async (node: Node) => {
      if (node.metadata?.name === "slow") await slow.promise;
      else done.push(`${what} ${node.metadata?.name} ${node.metadata?.resourceVersion ?? ""}`.trim());
    };
    await checks.run(nodes("slow", "a", "b"), never, named("delete"));
    const newer = [
      { metadata: { name: "b", resourceVersion: "2" } },
      { metadata: { name: "a", resourceVersion: "2" } },
    ];
    await checks.run(newer, never, named("check"));
    slow.resolve();
    await eventually("both are done", () => done.length === 2);
    expect(done).toEqual(["check a 2", "check b 2"]);
  });

  test("drains what begins while it drains, too", async () => {
    const checks = makeChecks(1);
    const gates = new Map(["a", "b"].map((name) => [name, Promise.withResolvers<void>()]));
    const done: string[] = [];
    await checks.run(nodes("a", "b"), never, async ({ metadata: { name = "" } = {} }) => {
      await gates.get(name)?.promise;
      done.push(name);
    });
    const drained = checks.drain().then(() => done.push("drained"));
    gates.get("a")?.resolve();
    await eventually("the second one has begun", () => done.length > 0);
    await Bun.sleep(5);
    gates.get("b")?.resolve();
    await drained;
    expect(done).toEqual(["a", "b", "drained"]);
  });

  test("waits no longer than for the last check", async () => {
    const checks = makeChecks(1, 600_000);
    const done: string[] = [];
    const running = checks.run(nodes("a", "b"), never, async ({ metadata }) => void done.push(metadata?.name ?? ""));
    const ended = running.then(() => "the last check");
    expect(await Promise.race([ended, Bun.sleep(5_000)])).toBe("the last check");
    expect(done).toEqual(["a", "b"]);
  });

  test("starts nothing once its signal has aborted, and drains what was started", async () => {
    const checks = makeChecks(1, 10_000);
    const stop = new AbortController();
    const gate = Promise.withResolvers<void>();
    const started: string[] = [];
    const running = checks.run(nodes("a", "b"), stop.signal, async ({ metadata }) => {
      started.push(metadata?.name ?? "");
      await gate.promise;
    });
    stop.abort();
    await running;
    let drained = false;
    const draining = checks.drain().then(() => (drained = true));
    await Bun.sleep(5);
    expect(drained).toBe(false);
    gate.resolve();
    await draining;
    expect(started).toEqual(["a"]);
    await checks.run(nodes("c"), stop.signal, async () => void started.push("c"));
    expect(started).toEqual(["a"]);
  });
});
