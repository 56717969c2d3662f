import { type Clock, type Explanation, messageOf } from "cloud-controller-host/sdk";
import { LRUCache } from "lru-cache";

import { within } from "../async/timeout.ts";

/** Time for which all pages share an answer of the cloud: its requests count against the controllers' budget. */
const cacheMs = 15_000;
/** Time limit of a request, including the wait for earlier ones. */
const limitMs = 20_000;
/** Reads in progress or waiting. */
const maxReading = 10;
const maxKept = 50;

interface CloudPart {
  readonly tree: readonly Explanation[];
  /** The reason if the read failed. */
  readonly failure?: string;
}

/** Reads the cloud resources of one object. */
export type Ask = () => Promise<readonly Explanation[]> | undefined;

/** Cloud resources of the objects that pages show. Objects are read one at a time, and pages share the results. */
export class CloudParts {
  readonly #clock: Clock;
  readonly #notAnswered: CloudPart;
  readonly #kept: LRUCache<string, CloudPart>;
  /** In the order of the requests. */
  readonly #reading = new Map<string, Promise<CloudPart>>();

  constructor(clock: Clock, cloudName: string) {
    this.#clock = clock;
    const perf = { now: () => clock.monotonic() };
    this.#kept = new LRUCache({ max: maxKept, ttl: cacheMs, perf, ttlResolution: 0 });
    this.#notAnswered = { tree: [], failure: `the cloud "${cloudName}" has not answered in ${limitMs / 1000} s` };
  }

  /** Never rejects. */
  of(subject: string, ask: Ask): Promise<CloudPart> {
    const kept = this.#kept.get(subject);
    if (kept !== undefined) return Promise.resolve(kept);
    const reading = this.#reading.get(subject);
    if (reading !== undefined) return reading;
    if (this.#reading.size >= maxReading)
      return Promise.resolve({ tree: [], failure: `${maxReading} other objects are being read; try again` });
    const begun = this.#read(subject, ask).finally(() => this.#reading.delete(subject));
    this.#reading.set(subject, begun);
    return begun;
  }

  async #read(subject: string, ask: Ask): Promise<CloudPart> {
    const until = this.#clock.monotonic() + limitMs;
    await [...this.#reading.values()].at(-1);
    const leftMs = until - this.#clock.monotonic();
    if (leftMs <= 0) return this.#notAnswered;
    const part = await within(this.#clock, leftMs, Promise.try(ask)).then(
      (answer) => (answer.done ? { tree: answer.value ?? [] } : this.#notAnswered),
      (error: unknown) => ({ tree: [], failure: messageOf(error) }),
    );
    this.#kept.set(subject, part);
    return part;
  }
}
