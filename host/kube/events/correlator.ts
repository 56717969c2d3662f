import type { Clock, KubeEvent } from "cloud-controller-host/sdk";
import { LRUCache } from "lru-cache";

import { TokenBucket } from "../queue/rate-limit.ts";
import type { EventMaker } from "./event-object.ts";

const cacheSize = 4096;
/** From this many different messages on, similar events are combined into one. */
const similarLimit = 10;
const similarWindowMs = 600_000;
const spamLimit = { perSecond: 1 / 300, burst: 25 } as const;

export interface CorrelatedEvent {
  /** The event with its count and times updated. */
  readonly event: KubeEvent;
  /** Set if the event already exists and only needs this strategic merge patch. */
  readonly patch: { readonly count: number; readonly lastTimestamp: string; readonly message: string } | undefined;
}

interface Similar {
  lastAt: number;
  readonly messages: Set<string>;
}

/**
 * Protects the API server from repeated events: a repetition increments the count of the first, similar events are
 * combined, and events over the limit are dropped. upstream: client-go `record/events_cache.go`.
 */
export class EventCorrelator {
  readonly #clock: Clock;
  readonly #maker: EventMaker;
  readonly #similar = new LRUCache<string, Similar>({ max: cacheSize });
  readonly #seen = new LRUCache<string, KubeEvent>({ max: cacheSize });
  readonly #budgets = new LRUCache<string, TokenBucket>({ max: cacheSize });

  constructor(clock: Clock, maker: EventMaker) {
    this.#clock = clock;
    this.#maker = maker;
  }

  /** Undefined if the event must be dropped. */
  correlate(event: KubeEvent): CorrelatedEvent | undefined {
    const { key, event: combined } = this.#combine(event);
    const known = this.#seen.get(key);
    const current: KubeEvent =
      known === undefined
        ? combined
        : {
            ...combined,
            metadata: known.metadata,
            count: (known.count ?? 1) + 1,
            ...(known.firstTimestamp && { firstTimestamp: known.firstTimestamp }),
          };
    this.#seen.set(key, current);
    if (!this.#budget(event).tryTake()) return undefined;
    const { count = 1, lastTimestamp = "", message = "" } = current;
    return { event: current, patch: known === undefined ? undefined : { count, lastTimestamp, message } };
  }

  /** The event under its own key, or, above the limit of similar ones, a combined event. */
  #combine(event: KubeEvent): { readonly key: string; readonly event: KubeEvent } {
    const now = this.#clock.monotonic();
    const { message = "" } = event;
    const sharedKey = keyOfSimilar(event);
    let similar = this.#similar.get(sharedKey);
    if (similar === undefined || now - similar.lastAt > similarWindowMs) {
      similar = { lastAt: now, messages: new Set() };
      this.#similar.set(sharedKey, similar);
    }
    similar.lastAt = now;
    similar.messages.add(message);
    if (similar.messages.size < similarLimit) return { key: JSON.stringify([sharedKey, message]), event };
    for (const oldest of similar.messages) {
      similar.messages.delete(oldest);
      break;
    }
    const name = this.#maker.nameFor(event.involvedObject.name ?? "");
    const combined = {
      ...event,
      metadata: { ...event.metadata, name },
      message: `(combined from similar events): ${message}`,
    };
    return { key: sharedKey, event: combined };
  }

  #budget(event: KubeEvent): TokenBucket {
    const key = JSON.stringify([keyOfObject(event), event.type]);
    let budget = this.#budgets.get(key);
    if (budget === undefined) {
      budget = new TokenBucket({ ...spamLimit, clock: this.#clock });
      this.#budgets.set(key, budget);
    }
    return budget;
  }
}

/** Key of one component's events about one object. */
export function keyOfObject(event: KubeEvent): string {
  const { apiVersion, kind, namespace, name, uid } = event.involvedObject;
  return JSON.stringify([event.source?.component, kind, namespace, name, uid, apiVersion]);
}

/** Key of events that differ only in their message. */
const keyOfSimilar = (event: KubeEvent): string => JSON.stringify([keyOfObject(event), event.type, event.reason]);
