import type { EventRecorder, Informers, KubeClient, WorkQueue, WorkQueueOptions } from "./kube.ts";

export type LogFields = Readonly<Record<string, unknown>>;

/** Structured log. A secret never belongs in a field. */
export interface Logger {
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  /** `fields.error` may hold whatever was thrown: its message is logged, its stack only at verbosity 4 and above. */
  error(message: string, fields?: LogFields): void;
  /** Logged only when `-v` (or a matching `--vmodule`) is at least `level`. */
  debug(level: number, message: string, fields?: LogFields): void;
  with(fields: LogFields): Logger;
}

/** Time as a controller sees it; tests give one that they move by hand. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Milliseconds on a clock that is never set. */
  monotonic(): number;
  /** Resolves after `ms`, or at once when the signal aborts; it never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export interface MetricSpec<Label extends string = never> {
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly Label[];
}
export type MetricLabels<Label extends string> = Readonly<Record<Label, string>>;
export interface Counter<Label extends string = never> {
  inc(labels?: MetricLabels<Label>, by?: number): void;
}
export interface Gauge<Label extends string = never> {
  set(value: number, labels?: MetricLabels<Label>): void;
}
export interface Histogram<Label extends string = never> {
  observe(value: number, labels?: MetricLabels<Label>): void;
}

/** Returns the same metric for the same spec. A generation's gauges are removed with it; counters stay. */
export interface Metrics {
  counter<Label extends string = never>(spec: MetricSpec<Label>): Counter<Label>;
  gauge<Label extends string = never>(spec: MetricSpec<Label>): Gauge<Label>;
  histogram<Label extends string = never>(
    spec: MetricSpec<Label> & { readonly buckets: readonly number[] },
  ): Histogram<Label>;
}

/** Whether this generation may still write. Everything that writes to a cloud asks first. */
export interface Fence {
  readonly closed: boolean;
  /** Throws `FencedError` naming `what` when the generation may no longer write. */
  check(what: string): void;
  /** Aborts when the fence closes for good, so that writes in flight are cut off. */
  readonly signal: AbortSignal;
}

/** What a controller or a cloud is given of its generation. All of it is dead when `signal` aborts. */
export interface GenerationContext {
  /** Counts from 1; each reload makes the next. */
  readonly generation: number;
  readonly client: KubeClient;
  readonly informers: Informers;
  readonly events: EventRecorder;
  readonly metrics: Metrics;
  readonly log: Logger;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** upstream: `app.ControllerContext`. */
export interface ControllerContext extends GenerationContext {
  /** The controller's canonical name. */
  readonly name: string;
  workqueue(name: string, options?: WorkQueueOptions): WorkQueue;
}

export interface CloudContext extends GenerationContext {
  readonly clusterName: string;
  readonly fence: Fence;
}
