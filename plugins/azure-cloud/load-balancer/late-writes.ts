import type { Clock } from "cloud-controller-host/sdk";

import { sameName } from "../arm/resource-id.ts";
import type { WriteOutcome } from "./apply.ts";
import type { Observed, ServiceKey } from "./model.ts";
import type { Write } from "./plan-model.ts";

/** A write that is still in flight after its batch has gone on without it. */
export interface LateWrite {
  readonly write: Write;
  /** Never rejects. */
  readonly outcome: Promise<WriteOutcome>;
}

/** How long a batch waits for the creation of a public IP, which usually takes a few seconds. */
const patienceMs = 10_000;

/** The outcome of a Service that has left its batch: it is to be planned again when the write is back. */
export class LateWriteError extends Error {
  readonly late: LateWrite;
  /** False for a Service that only needs the same resource. */
  readonly isOwn: boolean;
  /** Requests that changed something for the Service until then. */
  readonly writes: number;

  constructor(late: LateWrite, { isOwn, writes }: { readonly isOwn: boolean; readonly writes: number }) {
    super(`${late.write.id} is still being written`);
    this.late = late;
    this.isOwn = isOwn;
    this.writes = writes;
  }
}

/**
 * Writes in flight that no batch waits for. While one is here, its Service is in no batch, and no batch writes its
 * resource, so that every resource keeps one writer. Batches still run one after another: only they add writes.
 */
export class LateWrites {
  readonly #writes = new Set<LateWrite>();

  /** A copy: what was in flight before an observation may be missing from it. */
  current(): readonly LateWrite[] {
    return [...this.#writes];
  }

  add(late: LateWrite): void {
    this.#writes.add(late);
    void late.outcome.then(() => this.#writes.delete(late));
  }
}

export const lateFor = (late: readonly LateWrite[], key: ServiceKey): LateWrite | undefined =>
  late.find(({ write }) => write.services.includes(key));

export const lateAt = (late: readonly LateWrite[], id: string): LateWrite | undefined =>
  late.find(({ write }) => sameName(write.id, id));

/**
 * Whether a write may be left in flight: the creation of a public IP, which is always for one Service. ARM accepts no write of a load
 * balancer while it updates a public IP that a frontend has, so all others are waited for.
 */
export const mayBeLate = (write: Write, { publicIPs, loadBalancers }: Observed): boolean =>
  write.kind === "put-public-ip" &&
  !publicIPs.some(({ id = "" }) => sameName(id, write.id)) &&
  !loadBalancers.some(({ frontendIPConfigurations = [] }) =>
    frontendIPConfigurations.some(({ publicIPAddress }) => sameName(publicIPAddress?.id ?? "", write.id)),
  );

/** Outcomes of the writes that come back in time, and the writes that do not. */
export async function inTime(
  started: readonly LateWrite[],
  clock: Clock,
): Promise<{ readonly outcomes: readonly WriteOutcome[]; readonly late: readonly LateWrite[] }> {
  const back = new Map<LateWrite, WriteOutcome>();
  const done = new AbortController();
  const work = Promise.all(started.map(async (one) => back.set(one, await one.outcome)));
  await Promise.race([work, pause(clock, done.signal)]);
  done.abort();
  return { outcomes: [...back.values()], late: started.filter((one) => !back.has(one)) };
}

async function pause(clock: Clock, signal: AbortSignal): Promise<void> {
  const until = clock.monotonic() + patienceMs;
  for (let now = clock.monotonic(); now < until && !signal.aborted; now = clock.monotonic())
    await clock.sleep(until - now, signal);
}
