import type {
  Clock,
  Counter,
  EventOptions,
  EventRecorder,
  EventSubject,
  KubeClient,
  Logger,
  Metrics,
} from "cloud-controller-host/sdk";

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

  /** At shutdown: sends every queued event once, within the time limit. */
  flush(timeoutMs: number): Promise<void> {
    return this.#sink.flush(timeoutMs);
  }

  /** Drops unsent events; later events are only logged. */
  close(): Promise<void> {
    this.#closed = true;
    return this.#sink.close();
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
