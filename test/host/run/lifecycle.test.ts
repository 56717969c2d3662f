import { describe, expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import type { WorkEnd } from "../../../host/generation/slot/slot.ts";
import { createLogger } from "../../../host/process/log/log.ts";
import type { LeadershipEnd } from "../../../host/run/leadership.ts";
import { type LifecycleOptions, runLifecycle } from "../../../host/run/lifecycle.ts";

const never = new Promise<never>(() => undefined);
const ended: WorkEnd = { outstanding: [], failure: undefined };

/** A lifecycle that leads until it is stopped, with some of its parts replaced. */
function lifecycle(parts: {
  readonly lead?: LifecycleOptions["supervisor"]["lead"];
  readonly leads?: false;
  readonly release?: Promise<void>;
  readonly outcome?: LeadershipEnd["outcome"];
  readonly first?: LifecycleOptions["first"];
  readonly serveReloads?: LifecycleOptions["serveReloads"];
}) {
  const clock = manualClock();
  const lines: string[] = [];
  const stopping = new AbortController();
  const until = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener("abort", () => resolve(), { once: true });
    });
  const status = runLifecycle({
    supervisor: {
      lead: parts.lead ?? ((signal) => until(signal).then(() => ended)),
      leaseReleased: () => undefined,
      lockWon: () => undefined,
      lost: () => undefined,
    },
    leadership: {
      async run(signal, { onStartedLeading }): Promise<LeadershipEnd> {
        const work = parts.leads === false ? await until(signal) : await onStartedLeading(signal);
        await parts.release;
        return { outcome: parts.outcome ?? "released", work: work ?? undefined };
      },
    },
    first: parts.first ?? Promise.resolve(undefined),
    clock,
    log: createLogger({ format: "json", verbosity: 0, write: (line) => void lines.push(line) }),
    drainTimeout: 30_000,
    serveReloads: parts.serveReloads ?? ((_config, signal) => until(signal)),
    stopping,
  });
  return { clock, lines, status, stop: () => stopping.abort() };
}

describe("a stop", () => {
  test("ends with status 0 and the outcome of the election once everything has returned", async () => {
    const { status, stop, lines } = lifecycle({});
    stop();
    expect(await status).toBe(0);
    expect(lines.join("\n")).toMatch(/"outcome":"released","msg":"Leadership ended"/u);
  });

  test("ends with status 0 on a standby, which has done no work under the lease", async () => {
    const { status, stop } = lifecycle({ leads: false });
    stop();
    expect(await status).toBe(0);
  });

  test.each([
    ["the work under the lease never returns", { lead: () => never }],
    ["the lease is never released", { release: never }],
  ])("ends with status 1 when %s", async (_what, parts) => {
    const { clock, status, stop, lines } = lifecycle(parts);
    stop();
    await clock.advance(60_000);
    expect(await status).toBe(1);
    expect(lines.join("\n")).toContain("Shutdown phase timed out");
  });

  test("waits for a drain for the drain timeout and ten seconds", async () => {
    const drained = Promise.withResolvers<WorkEnd>();
    const { clock, status, stop, lines } = lifecycle({ lead: () => drained.promise });
    stop();
    await clock.advance(39_900);
    drained.resolve(ended);
    expect(await status).toBe(0);
    expect(lines.join("\n")).not.toContain("Shutdown phase timed out");
  });

  test("does not wait for a reload that ignores its signal", async () => {
    const { clock, status, stop } = lifecycle({ serveReloads: () => never });
    stop();
    await clock.advance(60_000);
    expect(await status).toBe(0);
  });
});

describe("reloads", () => {
  const untilStopped = (signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));

  test("reloads that are being abandoned by a stop are waited for", async () => {
    const order: string[] = [];
    const serveReloads = async (_config: string | undefined, signal: AbortSignal): Promise<void> => {
      await untilStopped(signal);
      await Bun.sleep(30);
      order.push("reloads ended");
    };
    const { status, stop } = lifecycle({ serveReloads });
    await Bun.sleep(0);
    stop();
    expect(await status).toBe(0);
    expect(order).toEqual(["reloads ended"]);
  });

  test("reloads that fail because of a stop do not make it a failure", async () => {
    const serveReloads = async (_config: string | undefined, signal: AbortSignal): Promise<void> => {
      await untilStopped(signal);
      throw new Error("the watch was aborted");
    };
    const { status, stop } = lifecycle({ serveReloads });
    await Bun.sleep(0);
    stop();
    expect(await status).toBe(0);
  });
});

describe("a host ends by itself", () => {
  test.each([
    [
      "the first generation cannot be prepared",
      () => ({ first: Promise.reject(new Error("bad config")) }),
      "bad config",
    ],
    ["reloads cannot be served", () => ({ serveReloads: () => Promise.reject(new Error("no watch")) }), "no watch"],
  ])("a host ends by itself when %s, and reports why", async (_what, parts, reason) => {
    const { status } = lifecycle(parts());
    await expect(status).rejects.toThrow(reason);
  });

  test("a host ends by itself when no generation can be run any more, and reports why", async () => {
    const lead = (): Promise<WorkEnd> => Promise.resolve({ ...ended, failure: new Error("no generation can be run") });
    await expect(lifecycle({ lead }).status).rejects.toThrow("no generation can be run");
  });

  test("a host ends by itself with status 1 when the lease was lost", async () => {
    const { status } = lifecycle({ lead: () => Promise.resolve(ended), outcome: "lost" });
    expect(await status).toBe(1);
  });

  test("a host ends by itself with status 1 when a controller has not returned, and 0 when only a disposal has not", async () => {
    const left = (kind: "run" | "dispose"): WorkEnd => ({ ...ended, outstanding: [{ kind, name: "odd", since: 0 }] });
    expect(await lifecycle({ lead: () => Promise.resolve(left("run")), outcome: "kept" }).status).toBe(1);
    expect(await lifecycle({ lead: () => Promise.resolve(left("dispose")), outcome: "kept" }).status).toBe(0);
  });
});
