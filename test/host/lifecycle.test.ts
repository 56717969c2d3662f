import { describe, expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import type { WorkEnd } from "../../host/generation/slot.ts";
import type { LeadershipEnd } from "../../host/leadership.ts";
import { type LifecycleOptions, runLifecycle } from "../../host/lifecycle.ts";
import { createLogger } from "../../host/process/log/log.ts";

const never = new Promise<never>(() => undefined);
const ended: WorkEnd = { outstanding: [], failure: undefined };

/** A lifecycle that leads until it is stopped, with some of its parts replaced. */
function lifecycle(parts: {
  readonly lead?: LifecycleOptions["supervisor"]["lead"];
  readonly release?: Promise<void>;
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
      lockWon: () => undefined,
      lost: () => undefined,
    },
    leadership: {
      async run(signal, { onStartedLeading }): Promise<LeadershipEnd> {
        const work = await onStartedLeading(signal);
        await parts.release;
        return { outcome: "released", work };
      },
    },
    first: Promise.resolve(undefined),
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

  test("does not wait for a reload that ignores its signal", async () => {
    const { clock, status, stop } = lifecycle({ serveReloads: () => never });
    stop();
    await clock.advance(60_000);
    expect(await status).toBe(0);
  });
});
