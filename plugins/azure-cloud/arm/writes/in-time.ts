import type { Clock } from "cloud-controller-host/sdk";

/** How long a batch waits for one write; most take a few seconds. */
const patienceMs = 10_000;

/** Waits for all promises, but not for long. Returns the items whose promise is still pending then. */
export async function inTime<T extends { readonly promise: Promise<unknown> }>(
  started: readonly T[],
  clock: Clock,
): Promise<readonly T[]> {
  const back = new Set<T>();
  const done = new AbortController();
  const work = Promise.all(started.map(async (one) => back.add(await one.promise.then(() => one))));
  await Promise.race([work, pause(clock, done.signal)]);
  done.abort();
  return started.filter((one) => !back.has(one));
}

async function pause(clock: Clock, signal: AbortSignal): Promise<void> {
  const until = clock.monotonic() + patienceMs;
  for (let now = clock.monotonic(); now < until && !signal.aborted; now = clock.monotonic())
    await clock.sleep(until - now, signal);
}
