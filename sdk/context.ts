import type { EventRecorder, Informers, KubeClient, WorkQueue, WorkQueueOptions } from "./kube.ts";
import type { PlannedWrite, Planning } from "./planning.ts";

/** Values of a log line by their names. `error` may hold any thrown value. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Structured log. A secret never belongs in a field. */
export interface Logger {
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  /** `fields.error` may hold any thrown value: its message is logged, its stack at verbosity 4 and above. */
  error(message: string, fields?: LogFields): void;
  /** Logged only when `-v` (or a matching `--vmodule`) is at least `level`. */
  debug(level: number, message: string, fields?: LogFields): void;
  with(fields: LogFields): Logger;
}

/** A controller's time source. Tests use `manualClock`. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Milliseconds of a monotonic clock. */
  monotonic(): number;
  /** Resolves after `ms` or when the signal aborts; never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** A metric with its labels. Names start with the subsystem and end with the unit, as in Prometheus. */
export interface MetricSpec<Label extends string = never> {
  readonly name: string;
  readonly help: string;
  readonly labels?: readonly Label[];
}
/** A value for each label of a metric. */
export type MetricLabels<Label extends string> = Readonly<Record<Label, string>>;
/** A metric with a label that names objects, which come and go. */
interface Removable<Label extends string> {
  /** The object of the series is gone: the series is removed after four more scrapes, unless it gets a new value. */
  remove?(labels: MetricLabels<Label>): void;
}
/** A number that only grows. */
export interface Counter<Label extends string = never> extends Removable<Label> {
  inc(labels?: MetricLabels<Label>, by?: number): void;
}
/** A number that is set. */
export interface Gauge<Label extends string = never> {
  set(value: number, labels?: MetricLabels<Label>): void;
}
/** Counts values in buckets. */
export interface Histogram<Label extends string = never> extends Removable<Label> {
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

/** Decides if this generation may still write. Checked before every write to a cloud. */
export interface Fence {
  readonly closed: boolean;
  /** Throws `FencedError`, which names `what`, when the generation may no longer write. */
  check(what: string): void;
  /** Aborts when the fence closes, to cancel writes in flight. */
  readonly signal: AbortSignal;
}

/** Services of one generation. None of them works after `signal` has aborted. */
export interface GenerationContext {
  /** Starts at 1; each reload increments it. */
  readonly generation: number;
  readonly client: KubeClient;
  readonly informers: Informers;
  readonly events: EventRecorder;
  readonly metrics: Metrics;
  readonly log: Logger;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** The deployments that serve the Services of one cluster, each under a Lease of its own. */
export interface Shards {
  /** Name of this process's Lease. */
  readonly own: string;
  /**
   * True while another process may serve Services under that Lease. Rejects when Leases cannot be read. Absent in a process that
   * serves all Services but those that others mark.
   */
  readonly isAlive?: (lease: string) => Promise<boolean>;
}

/** upstream: `app.ControllerContext`. */
export interface ControllerContext extends GenerationContext {
  /** The controller's canonical name. */
  readonly name: string;
  /** Absent without leader election, or where the controller runs without a host. */
  readonly shards?: Shards;
  workqueue(name: string, options?: WorkQueueOptions): WorkQueue;
}

/** A write that a cloud has sent, for `/statusz/writes` and the audit log. */
export interface CloudWrite {
  /** `PUT`, `delete` or another name of the cloud's API. */
  readonly operation: string;
  /** Identifies the resource, such as an ARM resource ID. */
  readonly resource: string;
  /**
   * Settings before and after the write, without secrets and without fields that the cloud fills: `before` is undefined
   * for a creation, `after` for a deletion. Absent where the cloud does not know them. The record has what differs:
   * list items with names that stay as they are may be left out of both.
   */
  readonly change?: Pick<PlannedWrite, "before" | "after">;
  /**
   * For the operation `drift`, a change that another writer made to what the cloud owns: false as it is found, true once
   * it is restored.
   */
  readonly repaired?: boolean;
  /** HTTP status of an error reply. */
  readonly status?: number;
  /** In one line without secrets; absent where the write succeeded. */
  readonly error?: string;
  /** By which the cloud's own log names the request. */
  readonly correlationId?: string;
  /** Until the reply, retries included. */
  readonly milliseconds: number;
}

/**
 * The consent of a person to removals that no cause explains, on the Lease of the leader election. A confirmation names
 * one plan by its hash; another plan needs one of its own.
 */
export interface Confirmations {
  /** True once the plan with that hash is confirmed. Rejects when the Lease cannot be read. */
  isConfirmed(hash: string): Promise<boolean>;
  /** The command that confirms it. */
  command(hash: string): string;
}

/** Context of a cloud: its generation's services, the fence before each write, and how it is deployed. */
export interface CloudContext extends GenerationContext {
  readonly clusterName: string;
  /**
   * Name of the shard, whose load balancers are its own: their names end in `-<shard>`. Empty in the deployment without
   * `--shard` that others run beside; absent in a process that serves all Services.
   */
  readonly shard?: string;
  /** Absent without leader election, or where the cloud runs without a host. */
  readonly shards?: Shards;
  /**
   * Keys of the cloud config that the reload changes, as the config spells them; empty at a start, and where an earlier
   * config runs again. Absent where the cloud runs without a host.
   */
  readonly changedKeys?: readonly string[];
  readonly fence: Fence;
  /** Reports a write that has been sent, however it ended. Absent where the cloud runs without a host. */
  readonly recordWrite?: (write: CloudWrite) => void;
  /** Absent without leader election, or where the cloud runs without a host. */
  readonly confirmations?: Confirmations;
  /** Present while a plan is made, for a cloud that declares `plans`. */
  readonly planning?: Planning;
}
