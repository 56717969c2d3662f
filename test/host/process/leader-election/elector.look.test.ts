import { expect, test } from "bun:test";

import type { Lease } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { Elector } from "../../../../host/process/leader-election/elector.ts";
import { microTime } from "../../../../host/process/leader-election/record.ts";
import { createLogger } from "../../../../host/process/log/log.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { memoryLeases } from "./memory-leases.ts";

const startMs = 800;

/** A candidate whose start takes a while after the look, with the Lease that it finds. */
async function looked({
  lease,
  mayLead,
  during,
}: {
  lease?: Lease["spec"];
  mayLead?: () => Promise<boolean>;
  during?: (put: (spec: Lease["spec"]) => void) => void;
}) {
  const [leases, clock, stop] = [memoryLeases(), manualClock(), new AbortController()];
  const put = (spec: Lease["spec"]): void => leases.put(spec ?? {});
  if (lease !== undefined) put(lease);
  const elector = new Elector({
    leaseDurationMs: 15_000,
    renewDeadlineMs: 10_000,
    retryPeriodMs: 500,
    random: () => 0,
    client: leases.client,
    clock,
    log: createLogger({ format: "text", verbosity: 4, write: () => undefined }),
    events: { event: () => undefined },
    metrics: new MetricsRegistry().root,
    identity: "me",
    ...(mayLead && { mayLead }),
    namespace: "kube-system",
    leaseName: "cloud-controller-manager",
  });
  await clock.advance(100);
  await elector.look(stop.signal);
  const lookedMs = clock.monotonic();
  await clock.advance(startMs);
  during?.(put);
  const running = elector.run({
    signal: stop.signal,
    lead: (signal) => new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true })),
  });
  await clock.advance(0);
  return {
    elector,
    leases,
    clock,
    lookedMs,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
    },
  };
}

const record = (holderIdentity: string, leaseDurationSeconds: number): NonNullable<Lease["spec"]> => ({
  holderIdentity,
  leaseDurationSeconds,
  acquireTime: microTime(0),
  renewTime: microTime(0),
  leaseTransitions: 4,
});

test.each([
  ["released", record("", 1), "update"],
  ["missing", undefined, "create"],
])("a Lease that was %s before the election is acquired as free since then, and read once", async (_, lease, write) => {
  await using end = await looked({ ...(lease && { lease }) });
  expect(end.elector.safelyHeld()).toBeTrue();
  expect(end.elector.heldSince).toBe(end.lookedMs);
  expect(end.leases.calls).toEqual(["get", write]);
});

test.each([
  ["released", record("", 1)],
  ["missing", undefined],
])("a Lease that was %s before the election and is written since is not held since then", async (_, lease) => {
  await using end = await looked({ ...(lease && { lease }), during: (put) => put(record("", 1)) });
  expect(end.elector.safelyHeld()).toBeTrue();
  expect(end.elector.heldSince).toBe(end.lookedMs + startMs);
});

test("a Lease that is taken between the look and the election stays with its holder", async () => {
  await using end = await looked({ lease: record("", 1), during: (put) => put(record("other", 15)) });
  expect(end.elector.safelyHeld()).toBeFalse();
  expect(end.leases.get()?.spec?.holderIdentity).toBe("other");
});

test("a Lease that another candidate holds is read once until the first retry, and expires from when it was first read", async () => {
  await using end = await looked({ lease: record("other", 15) });
  expect(end.leases.calls).toEqual(["get"]);
  await end.clock.advance(400);
  expect(end.leases.calls).toEqual(["get"]);
  const expiresMs = end.lookedMs + 15_000;
  while (end.clock.monotonic() < expiresMs + 500) await end.clock.advance(100);
  expect(end.elector.safelyHeld()).toBeTrue();
  expect(end.elector.heldSince).toBeGreaterThan(expiresMs);
});

test("a Lease whose holder was removed by hand is not acquired at once, also when it was seen before the election", async () => {
  await using end = await looked({ lease: record("", 15) });
  expect(end.elector.safelyHeld()).toBeFalse();
  expect(end.leases.calls).not.toContain("update");
});

test("a candidate that may not lead now writes nothing of a Lease that was released", async () => {
  await using end = await looked({ lease: record("", 1), mayLead: async () => false });
  expect(end.elector.safelyHeld()).toBeFalse();
  expect(end.leases.calls.filter((call) => call !== "get")).toEqual([]);
});
