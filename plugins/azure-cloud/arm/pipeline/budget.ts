import type { PipelinePolicy, PipelineRequest, PipelineResponse, SendRequest } from "@azure/core-rest-pipeline";
import { type Clock, type Explanation, RetryAfterError } from "cloud-controller-host/sdk";

import { keepLatest } from "../../keep-latest.ts";
import { retryAfterMs } from "../transport/retry.ts";
import type { ArmMetrics } from "./metrics.ts";
import { isRead, targetOf } from "./target.ts";

/** A token bucket that mirrors one of ARM's limits: the remaining tokens last reported, and the refill rate. */
interface Bucket {
  readonly remaining: number;
  /** The highest number of tokens ever reported: the capacity. */
  readonly capacity: number;
  /** Time to refill from empty. */
  readonly refillMs: number;
  readonly atMs: number;
}

/**
 * Refill times of ARM's own buckets: 250 reads at 25 per second, 200 writes or deletes at 10 per second. The global ones,
 * which all identities of a subscription share, have 15 times as much of both.
 */
const subscriptionRefillMs = { reads: 10_000, writes: 20_000, deletes: 20_000 } as const;
const subscriptionHeader = /^x-ms-ratelimit-remaining-subscription-(global-)?(reads|writes|deletes)$/u;
/** `Microsoft.Compute/HighCostGetVMScaleSet3Min;107`, in time that grows with the length alone, whatever the text. */
const resourceBucket = /^([^;]+?([1-9]\d{0,3})(Min|Sec));(\d{1,9})$/iu;
const count = /^\d{1,9}$/u;
/** ARM has a few of each type and subscription. */
const maxBuckets = 1_000;

/** Below this fraction of the capacity, requests are spaced by the refill instead of being sent at once. */
const reservePart = 0.05;
const longestPauseMs = 30_000;
const gateWithoutHintMs = 5_000;
/** Callers repeat their work right after the wait: without a lower bound, a 429 with `Retry-After: 0` would be a loop. */
const minDelayMs = 1_000;

/**
 * Keeps requests within ARM's limits. A token bucket follows each limit that ARM reports in its replies; when one runs
 * low, requests that draw on it wait for the refill. After a 429 the requests of that type fail at once, without a
 * network call and with the remaining wait as data, until ARM's `Retry-After` has passed. Source of the latter:
 * upstream's throttling policy. Given `patience`, requests wait in place of failing, until it aborts.
 */
export class Budget {
  readonly #clock: Clock;
  readonly #metrics: ArmMetrics;
  readonly #buckets = new Map<string, Bucket>();
  /** The buckets that each kind of request has been observed to draw on. */
  readonly #drawsOn = new Map<string, readonly string[]>();
  readonly #closedUntil = new Map<string, number>();
  readonly #patience: AbortSignal | undefined;

  constructor(clock: Clock, metrics: ArmMetrics, patience?: AbortSignal) {
    this.#clock = clock;
    this.#metrics = metrics;
    this.#patience = patience;
  }

  readonly policy: PipelinePolicy = {
    name: "budget",
    sendRequest: async (request, next) => {
      for (;;)
        try {
          return await this.#send(request, next);
        } catch (error) {
          if (this.#patience === undefined || !(error instanceof RetryAfterError)) throw error;
          await this.#clock.sleep(error.delayMs, this.#patience);
          if (this.#patience.aborted) throw error;
        }
    },
  };

  async #send(request: PipelineRequest, next: SendRequest): Promise<PipelineResponse> {
    const kind = kindOf(request);
    this.#checkGate(kind, request);
    await this.#pace(kind, request);
    const response = await next(request);
    this.#learn(kind, response);
    if (response.status === 429) this.#closeGate(kind, request, response);
    return response;
  }

  /** The rest of each limit that ARM has reported, and the requests that wait after a 429. */
  get status(): readonly Explanation[] {
    const now = this.#clock.monotonic();
    const left = [...this.#buckets].map(([name, bucket]) => ({
      name,
      value: `${Math.floor(availableIn(bucket, now))} of ${bucket.capacity} left`,
    }));
    const waiting = [...this.#closedUntil]
      .filter(([, until]) => until > now)
      .map(([name, until]) => ({ name, value: `throttled for another ${Math.ceil((until - now) / 1000)} s` }));
    return [
      { title: "requests that ARM still accepts", facts: left },
      { title: "requests that ARM throttles", facts: waiting },
    ].filter(({ facts }) => facts.length > 0);
  }

  /** The smallest part of its capacity that any limit of writes, and of polls of their operations, has left: 0 to 1. */
  get headroom(): number {
    const now = this.#clock.monotonic();
    const names = new Set([...this.#drawsOn].flatMap(([kind, drawn]) => (isForWrites(kind) ? drawn : [])));
    const parts = [...names].flatMap((name) => {
      const bucket = this.#buckets.get(name);
      return bucket === undefined ? [] : [availableIn(bucket, now) / bucket.capacity];
    });
    return Math.max(0, Math.min(1, ...parts));
  }

  #checkGate(kind: string, request: PipelineRequest): void {
    const leftMs = (this.#closedUntil.get(kind) ?? 0) - this.#clock.monotonic();
    if (leftMs <= 0) return;
    this.#metrics.held(request);
    throw throttled(kind, leftMs);
  }

  #closeGate(kind: string, request: PipelineRequest, response: PipelineResponse): never {
    const now = this.#clock.monotonic();
    const requestedMs = retryAfterMs(response, this.#clock.now()) ?? gateWithoutHintMs;
    // Requests of one kind draw on several limits: the reply about another one does not shorten a wait.
    const waitMs = Math.max(requestedMs, (this.#closedUntil.get(kind) ?? 0) - now);
    this.#closedUntil.set(kind, now + waitMs);
    this.#metrics.throttled(request);
    throw throttled(kind, Math.max(minDelayMs, waitMs));
  }

  async #pace(kind: string, request: PipelineRequest): Promise<void> {
    const pauseMs = Math.max(0, ...(this.#drawsOn.get(kind) ?? []).map((name) => this.#draw(name)));
    if (pauseMs === 0) return;
    this.#metrics.held(request);
    const { abortSignal } = request;
    await this.#clock.sleep(pauseMs, abortSignal instanceof AbortSignal ? abortSignal : undefined);
  }

  /** Takes a token from a bucket; returns how long to wait for it. */
  #draw(name: string): number {
    const bucket = this.#buckets.get(name);
    if (bucket === undefined) return 0;
    const now = this.#clock.monotonic();
    const perMs = bucket.capacity / bucket.refillMs;
    const left = availableIn(bucket, now) - 1;
    this.#buckets.set(name, { ...bucket, remaining: left, atMs: now });
    const reserve = bucket.capacity * reservePart;
    return left >= reserve ? 0 : Math.min(longestPauseMs, (reserve - left) / perMs);
  }

  #learn(kind: string, response: PipelineResponse): void {
    const names: string[] = [];
    for (const { name, remaining, refillMs } of reported(kind, response)) {
      const capacity = Math.max(remaining, this.#buckets.get(name)?.capacity ?? 1);
      this.#buckets.delete(name);
      this.#buckets.set(name, { remaining, capacity, refillMs, atMs: this.#clock.monotonic() });
      names.push(name);
    }
    keepLatest(this.#buckets, maxBuckets);
    if (names.length > 0) this.#drawsOn.set(kind, names);
  }
}

const availableIn = ({ capacity, remaining, refillMs, atMs }: Bucket, now: number): number =>
  Math.min(capacity, remaining + ((now - atMs) * capacity) / refillMs);

/** One kind per subscription, type and direction, as upstream has one client each. */
function kindOf(request: PipelineRequest): string {
  const { subscription, type } = targetOf(request.url);
  return `${isRead(request.method) ? "reads" : "writes"} of ${type} in ${subscription}`;
}

const isForWrites = (kind: string): boolean => kind.startsWith("writes") || /operation/iu.test(kind);

interface Reported {
  readonly name: string;
  readonly remaining: number;
  readonly refillMs: number;
}

function* reported(kind: string, response: PipelineResponse): Generator<Reported> {
  const subscription = kind.slice(kind.lastIndexOf(" ") + 1);
  for (const [header, value] of response.headers) {
    const [, scope = "", limit] = subscriptionHeader.exec(header) ?? [];
    if ((limit === "reads" || limit === "writes" || limit === "deletes") && count.test(value))
      yield {
        name: `${scope}${limit} ${subscription}`,
        remaining: Number(value),
        refillMs: subscriptionRefillMs[limit],
      };
    if (header !== "x-ms-ratelimit-remaining-resource") continue;
    for (const item of value.split(",")) {
      const [, bucket, length, unit, remaining] = resourceBucket.exec(item.trim()) ?? [];
      if (bucket === undefined) continue;
      const refillMs = Number(length) * (unit?.toLowerCase() === "sec" ? 1_000 : 60_000);
      yield { name: `${bucket} ${subscription}`, remaining: Number(remaining), refillMs };
    }
  }
}

const throttled = (kind: string, waitMs: number): RetryAfterError =>
  new RetryAfterError(
    Math.ceil(waitMs),
    `ARM throttles ${kind}: too many requests; the next one in ${Math.ceil(waitMs / 1000)} s`,
  );
