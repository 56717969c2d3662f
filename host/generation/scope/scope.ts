import type {
  Clock,
  CloudWrite,
  CompletedConfig,
  Confirmations,
  ControllerPlugin,
  Environment,
  EventRecorder,
  Fence,
  KubeClient,
  Logger,
  Metrics,
  Shards,
  WorkQueue,
  WorkQueueOptions,
} from "cloud-controller-host/sdk";

import type { LoopOwner } from "../../async/loop-owner.ts";
import type { OutstandingWork } from "../../async/outstanding-work.ts";
import type { Tracer } from "../../async/tracer.ts";
import type { OwnOptions } from "../../config/parse/parse.ts";
import type { GenerationInformers } from "../../kube/informers/share.ts";
import type { GenerationMetrics } from "../../process/metrics/metrics.ts";
import type { HealthCheck } from "../../process/serving/health.ts";

/** The watches that all generations share. */
export interface ProcessInformers {
  share(): GenerationInformers;
  /**
   * Sends first lists that are under way again if they were sent before `since`, by the monotonic clock. They would be
   * too old to start controllers with, and everything would be listed a second time after them.
   */
  relist(since: number): void;
  /** Resolves when the stores show everything that generations have written, or after a second. */
  showWrites(): Promise<void>;
}

/** The locks that controllers run under, by name. Without leader election there is one, and it is always held. */
export interface Locks {
  /** Main lock, for every controller without a lock of its own. Other locks are held only while this one is. */
  readonly main: string;
  /** The lock that a controller runs under, or the component that runs it in place of this one. */
  of(controller: Pick<ControllerPlugin, "name" | "aliases">): { readonly lock: string } | { readonly runBy: string };
  /** Why these controllers cannot run: more than one lock is for one of them. A reload may bring other names. */
  problems(controllers: readonly Pick<ControllerPlugin, "name" | "aliases">[]): readonly string[];
  /** True if this process may write under the lock now, by the local clock. Always true without leader election. */
  safelyHeld(lock: string): boolean;
  /**
   * A time, by the monotonic clock, at which no other process held the lock any more and since which none has. Negative
   * infinity without leader election.
   */
  heldSince(lock: string): number;
}

/** The parts of the process that every generation uses. A reload neither creates nor changes any of them. */
export interface ProcessScope {
  readonly settings: GenerationSettings;
  readonly config: Omit<CompletedConfig, "own">;
  readonly environment: Environment;
  readonly locks: Locks;
  readonly clock: Clock;
  readonly log: Logger;
  /** All plugin work that has been started and has not settled. */
  readonly outstanding: OutstandingWork;
  /** Names the plugin whose code occupies the event loop. */
  readonly loopOwner: Pick<LoopOwner, "run">;
  readonly metrics: { readonly root: Metrics; generation(): GenerationMetrics };
  readonly informers: ProcessInformers;
  readonly health: { replaceGeneration(checks: readonly HealthCheck[]): unknown };
  readonly tracer: Tracer;
  client(name: string, fence: Fence, generation: number): KubeClient;
  /** Records a write that a cloud has sent; `name` is that of its client. */
  recordWrite(name: string, generation: number, write: CloudWrite): void;
  /** Records that a reload has changed these keys of the cloud config. */
  configChanged?(generation: number, keys: readonly string[]): void;
  /** Absent without leader election, which has no Lease to annotate. */
  readonly confirmations?: Confirmations;
  /** Absent without leader election. */
  readonly shards?: Shards;
  recorder(component: string): EventRecorder;
  /** `owner` is the controller whose queue it is. */
  workqueue(name: string, options: WorkQueueOptions & { metrics: Metrics; log: Logger; owner: string }): WorkQueue;
  /** Called when a generation has been disposed of, after its successor has started; collects if the heap has grown. */
  readonly collectGarbage?: () => void;
  /** Called before a generation is drained for the next one: a collection between the two would lengthen the gap. */
  readonly collectYoungGarbage?: () => void;
  /** The class of a plugin's error and the line of the plugin that it comes from, for the log. */
  locate(error: unknown): ErrorOrigin;
  /** Records an event on the Lease. */
  announce(type: "Normal" | "Warning", reason: string, message: string): void;
}

/** Empty for an error that is not a plugin's, or one that was thrown on purpose, with a code. */
export interface ErrorOrigin {
  readonly class?: string;
  /** Path, line and column. */
  readonly at?: string;
}

/** Values of `--plugin-failure-policy`. */
export type PluginFailurePolicy = "skip" | "exit";

/** The flags that shape a generation. Times are in milliseconds. */
export interface GenerationSettings {
  readonly cloudProvider: string;
  readonly clusterName: string;
  /** As in `CloudContext`. */
  readonly shard?: string;
  /** Entries of `--controllers`. */
  readonly controllers: readonly string[];
  /** Entries of `--webhooks`. */
  readonly webhooks: readonly string[];
  readonly controllerStartInterval: number;
  readonly drainTimeout: number;
  readonly initTimeout: number;
  /** True if a third-party plugin that fails at a cold start is left out; false if it ends the process. */
  readonly pluginFailurePolicy: PluginFailurePolicy;
  /** Options of plugins as given on the command line. */
  readonly own: OwnOptions;
}
