import {
  ApiError,
  type Clock,
  isAlreadyExists,
  isNotFound,
  kinds,
  type KubeClient,
  type KubeEvent,
  type Logger,
  messageOf,
} from "cloud-controller-host/sdk";

import { Fifo } from "../../async/fifo.ts";
import { type EventCorrelator, keyOfObject } from "./correlator.ts";

/** A large scale-up: upstream drops events above 1000. */
const queueLimit = 10_000;
const inFlightLimit = 8;
/** In a burst the writes that the events are about are still under way: events must not compete with them. */
const burst = { size: 50, inFlightLimit: 2 };
const tries = 12;
const retryPauseMs = 10_000;

export interface EventSinkOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly correlator: Pick<EventCorrelator, "correlate">;
  /** Called for each event that will not be written. */
  dropped(why: "queue_full" | "spam" | "rejected" | "unreachable"): void;
}

/**
 * Writes events to the API server concurrently, but one component's events about one object in sequence, because the
 * second may be a patch of the first. A burst of events is sent with little concurrency, behind other writes.
 */
export class EventSink {
  readonly #options: EventSinkOptions;
  /** Queued events by object; an object with an event in flight has a queue, possibly empty. */
  readonly #lines = new Map<string, Fifo<KubeEvent>>();
  /** Objects whose next event can be sent. */
  readonly #ready = new Fifo<string>();
  /** Aborts pending retries. */
  readonly #hurry = new AbortController();
  readonly #stop = new AbortController();
  readonly #idleWaiters = new Set<() => void>();
  #held = 0;
  #inFlight = 0;

  constructor(options: EventSinkOptions) {
    this.#options = options;
  }

  /** False if the queue is full. Never waits. */
  offer(event: KubeEvent): boolean {
    if (this.#held >= queueLimit) return false;
    this.#held += 1;
    const key = keyOfObject(event);
    const line = this.#lines.get(key);
    if (line === undefined) {
      const fresh = new Fifo<KubeEvent>();
      fresh.push(event);
      this.#lines.set(key, fresh);
      this.#ready.push(key);
      // What the event is about continues first: at a take-over, controllers start.
      setImmediate(() => this.#begin());
    } else line.push(event);
    return true;
  }

  /** Sends each queued event once, without retries; resolves when done or at the time limit. */
  async flush(timeoutMs: number): Promise<void> {
    this.#hurry.abort();
    if (this.#held === 0) return;
    const done = new AbortController();
    this.#idleWaiters.add(() => done.abort());
    await this.#options.clock.sleep(timeoutMs, done.signal);
  }

  /** Drops queued events, aborts requests in flight and resolves when none is left. */
  async close(): Promise<void> {
    this.#hurry.abort();
    this.#stop.abort();
    if (this.#held > 0) await new Promise<void>((resolve) => this.#idleWaiters.add(resolve));
  }

  #begin(): void {
    while (this.#inFlight < (this.#held > burst.size ? burst.inFlightLimit : inFlightLimit)) {
      const key = this.#ready.shift();
      if (key === undefined) return;
      this.#inFlight += 1;
      void this.#sendNext(key);
    }
  }

  /** Never rejects. */
  async #sendNext(key: string): Promise<void> {
    const line = this.#lines.get(key);
    const event = line?.shift();
    if (event !== undefined) await this.#send(event);
    this.#inFlight -= 1;
    this.#held -= 1;
    if (line === undefined || line.size === 0) this.#lines.delete(key);
    else this.#ready.push(key);
    this.#begin();
    if (this.#held > 0) return;
    for (const waiter of this.#idleWaiters) waiter();
    this.#idleWaiters.clear();
  }

  /** upstream: client-go `record.recordToSink`. */
  async #send(raw: KubeEvent): Promise<void> {
    if (this.#stop.signal.aborted) return;
    const correlated = this.#options.correlator.correlate(raw);
    if (correlated === undefined) return this.#options.dropped("spam");
    const { event, patch } = correlated;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#write(event, patch);
      } catch (error) {
        if (error instanceof ApiError) return this.#rejected(event, error);
        if (attempt >= tries || this.#hurry.signal.aborted) return this.#gaveUp(event, error);
        this.#options.log.debug(4, `Unable to write event (may retry after sleeping): ${messageOf(error)}`);
        const pause = attempt === 1 ? retryPauseMs * Math.random() : retryPauseMs;
        await this.#options.clock.sleep(pause, this.#hurry.signal);
      }
    }
  }

  async #write(event: KubeEvent, patch: unknown): Promise<void> {
    const { client } = this.#options;
    const { name = "", namespace } = event.metadata;
    const { signal } = this.#stop;
    if (patch !== undefined) {
      try {
        await client.patch(kinds.Event, { name, namespace }, "strategic", patch, { signal });
        return;
      } catch (error) {
        // Events expire after about an hour; an expired one is created again.
        if (!isNotFound(error)) throw error;
      }
    }
    await client.create(kinds.Event, event, { signal });
  }

  #rejected(event: KubeEvent, error: ApiError): void {
    const line = `the API server rejected an event about ${event.involvedObject.name}: ${messageOf(error)}`;
    const expected = isAlreadyExists(error) || error.message.includes("because it is being terminated");
    if (expected) this.#options.log.debug(5, line);
    else this.#options.log.error(line, { reason: event.reason });
    this.#options.dropped("rejected");
  }

  #gaveUp(event: KubeEvent, error: unknown): void {
    if (this.#stop.signal.aborted) return;
    const line = `an event about ${event.involvedObject.name} could not be sent: ${messageOf(error)}`;
    this.#options.log.error(line, { reason: event.reason });
    this.#options.dropped("unreachable");
  }
}
