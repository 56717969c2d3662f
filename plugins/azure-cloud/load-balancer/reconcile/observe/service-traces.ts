import type { Clock, Service } from "cloud-controller-host/sdk";

/** Ids of resources in lower case, with the time of the last write or read of a Service there. */
type Places = Map<string, number>;

interface Traces {
  readonly wrote: Places;
  readonly seen: Places;
  latestMs: number;
}

/** The place of a write to anything else: whatever shows the Service shows that it was carried out. */
export const anywhere = "";

/**
 * The places in which writes may have created something for a Service, and reads have shown it since: load balancers and
 * public IPs. One that moves to another one is still shown on the former by reads that lag: each place counts by itself.
 */
export class ServiceTraces {
  readonly #clock: Clock;
  readonly #keptMs: () => number;
  /** By UID, the one with the oldest trace first. */
  readonly #traces = new Map<string, Traces>();

  /** Traces are kept for at least so long. */
  constructor(clock: Clock, keptMs: () => number) {
    this.#clock = clock;
    this.#keptMs = keptMs;
  }

  wrote(service: Service, place: string): void {
    const nowMs = this.#clock.monotonic();
    this.#of(service, nowMs).wrote.set(place.toLowerCase(), nowMs);
  }

  /** A write has removed it from there. */
  left(service: Service, place: string): void {
    this.#of(service, this.#clock.monotonic()).wrote.delete(place.toLowerCase());
  }

  saw(service: Service, places: readonly string[]): void {
    const nowMs = this.#clock.monotonic();
    const { seen } = this.#of(service, nowMs);
    for (const place of places) seen.set(place.toLowerCase(), nowMs);
  }

  /** `unseen`: times of the writes that no read has shown since. */
  of({ metadata: { uid = "" } = {} }: Service): { readonly isSeen: boolean; readonly unseen: readonly number[] } {
    const { wrote, seen } = this.#traces.get(uid) ?? { wrote: new Map<string, number>(), seen: new Map() };
    const lastSeenMs = Math.max(Number.NEGATIVE_INFINITY, ...seen.values());
    const seenMs = (place: string): number =>
      place === anywhere ? lastSeenMs : (seen.get(place) ?? Number.NEGATIVE_INFINITY);
    const unseen = [...wrote].flatMap(([place, wroteMs]) => (seenMs(place) < wroteMs ? [wroteMs] : []));
    return { isSeen: seen.size > 0, unseen };
  }

  #of({ metadata: { uid = "" } = {} }: Service, nowMs: number): Traces {
    const traces = this.#traces.get(uid) ?? { wrote: new Map(), seen: new Map(), latestMs: nowMs };
    traces.latestMs = nowMs;
    this.#traces.delete(uid);
    this.#traces.set(uid, traces);
    for (const [one, { latestMs }] of this.#traces) {
      if (nowMs - latestMs < this.#keptMs()) break;
      this.#traces.delete(one);
    }
    return traces;
  }
}
