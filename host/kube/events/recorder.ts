import {
  type Clock,
  type Counter,
  type EventOptions,
  type EventRecorder,
  type EventSubject,
  kinds,
  type KubeClient,
  type Logger,
  type Metrics,
} from "cloud-controller-host/sdk";

import { Fifo } from "../../async/fifo.ts";
import { EventCorrelator } from "./correlator.ts";
import { EventMaker } from "./event-object.ts";
import { EventSink } from "./sink.ts";

export interface EventBroadcasterOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: Metrics;
}

/** Dropped events come by the thousand; they are logged at most once per this period. */
const tellEveryMs = 10_000;

interface EventContent {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

/** An event of this process, as it was recorded. */
export interface RecordedEvent extends EventContent {
  /** RFC 3339. */
  readonly at: string;
  /** `Service default/web` or `Node vm-0`. */
  readonly subject: string;
  readonly source: string;
}

const recentEvents = 1_000;
/** They tell of leadership and reloads, and are few. */
const recentLeaseEvents = 200;

/**
 * Records events about objects, in the log and as Events that `kubectl describe` shows. One per process; recorders can be
 * created at any time. upstream: client-go `tools/record.EventBroadcaster`.
 */
export class EventBroadcaster {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #maker: EventMaker;
  readonly #sink: EventSink;
  readonly #dropped: Counter<"reason"> | undefined;
  readonly #recent = new Fifo<RecordedEvent>();
  readonly #ofLeases = new Fifo<RecordedEvent>();
  #count = 0;
  #closed = false;
  /** Number of events dropped since the last log line. */
  #untold = 0;
  #toldAt = Number.NEGATIVE_INFINITY;

  constructor(options: EventBroadcasterOptions) {
    this.#clock = options.clock;
    this.#log = options.log.with({ component: "events" });
    this.#maker = new EventMaker(options.clock);
    this.#dropped = options.metrics?.counter({
      name: "event_recorder_dropped_total",
      help: "Number of events that were not written to the API server, by reason",
      labels: ["reason"],
    });
    this.#sink = new EventSink({
      client: options.client,
      clock: options.clock,
      log: this.#log,
      correlator: new EventCorrelator(options.clock, this.#maker),
      dropped: (reason) => this.#dropped?.inc({ reason }),
    });
  }

  /** `component` is the event source: the canonical name of a controller. */
  recorder(component: string): EventRecorder {
    return {
      event: (subject, type, reason, message, options) =>
        this.#record(component, subject, { type, reason, message }, options),
    };
  }

  /** The latest events about Leases, oldest first, and those about anything else. */
  get recent(): { readonly leases: readonly RecordedEvent[]; readonly others: readonly RecordedEvent[] } {
    return { leases: [...this.#ofLeases], others: [...this.#recent] };
  }

  /** Number of events recorded since the start. */
  get count(): number {
    return this.#count;
  }

  /** At shutdown: sends every queued event once, within the time limit. */
  flush(timeoutMs: number): Promise<void> {
    return this.#sink.flush(timeoutMs);
  }

  /** Drops unsent events; later events are only logged. */
  close(): Promise<void> {
    this.#closed = true;
    return this.#sink.close();
  }

  #keep(event: RecordedEvent, isOfLease: boolean): void {
    const [recent, most] = isOfLease ? [this.#ofLeases, recentLeaseEvents] : [this.#recent, recentEvents];
    recent.push(event);
    if (recent.size > most) recent.shift();
    this.#count += 1;
  }

  #record(component: string, subject: EventSubject, content: EventContent, options: EventOptions = {}): void {
    const { type, reason, message } = content;
    const { apiVersion, kind, metadata: { name = "", namespace } = {} } = subject;
    const object = namespace ? `${namespace}/${name}` : name;
    const fields = { object, kind, apiVersion, source: component, type, reason, message };
    if (options.logged === "by caller") this.#log.debug(2, "Event occurred", fields);
    else if (type === "Warning") this.#log.warn("Event occurred", fields);
    else this.#log.info("Event occurred", fields);
    if (!apiVersion || !kind || !name) {
      this.#log.error("Invalid event: the object needs apiVersion, kind and name", {
        object,
        source: component,
        reason,
      });
      return;
    }
    const at = new Date(this.#clock.now()).toISOString();
    this.#keep({ at, subject: `${kind} ${object}`, source: component, ...content }, kind === kinds.Lease.kind);
    const event = this.#maker.make({ component, subject: { ...subject, apiVersion, kind }, type, reason, message });
    if (this.#closed || this.#sink.offer(event)) return;
    this.#dropped?.inc({ reason: "queue_full" });
    this.#untold += 1;
    const now = this.#clock.monotonic();
    if (now - this.#toldAt < tellEveryMs) return;
    this.#log.error("Event queue is full; dropping events", {
      dropped: this.#untold,
      object,
      reason,
    });
    this.#untold = 0;
    this.#toldAt = now;
  }
}
