import type {
  Clock,
  CompletedConfig,
  ControllerPlugin,
  Environment,
  EventRecorder,
  Fence,
  KubeClient,
  Logger,
  Metrics,
  WorkQueue,
  WorkQueueOptions,
} from "cloud-controller-host/sdk";

import type { Tracer } from "../async/tracer.ts";
import type { GenerationInformers } from "../kube/informers/pool.ts";
import type { GenerationMetrics } from "../process/metrics/metrics.ts";
import type { HealthCheck } from "../process/serving/health.ts";

/** The watches that all generations share. */
export interface ProcessInformers {
  share(): GenerationInformers;
  /** Resolves soon: when the stores show all that generations have written, or when that takes too long. */
  showWrites(): Promise<void>;
}

/** What this process has to hold before it runs controllers, each lock by its name; one of them without elections. */
export interface Locks {
  /** The lock of all that no other lock is for. No other is held without it. */
  readonly main: string;
  /** The lock that a controller runs under, or the component that runs it in place of this one. */
  of(controller: Pick<ControllerPlugin, "name" | "aliases">): { readonly lock: string } | { readonly runBy: string };
  /** Why these controllers cannot run: more than one lock is for one of them. A reload may bring other names. */
  problems(controllers: readonly Pick<ControllerPlugin, "name" | "aliases">[]): readonly string[];
  /** Whether this process may write under the lock now, by the local clock. Always true without leader election. */
  safelyHeld(lock: string): boolean;
}

/** What one process lends to all its generations. Nothing here is made or changed by a reload. */
export interface ProcessScope {
  readonly settings: GenerationSettings;
  readonly config: Omit<CompletedConfig, "own">;
  readonly environment: Environment;
  readonly locks: Locks;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: { readonly root: Metrics; generation(): GenerationMetrics };
  readonly informers: ProcessInformers;
  readonly health: { replaceGeneration(checks: readonly HealthCheck[]): unknown };
  readonly tracer: Tracer;
  client(name: string, fence: Fence): KubeClient;
  recorder(component: string): EventRecorder;
  workqueue(name: string, options: WorkQueueOptions & { metrics: Metrics; log: Logger }): WorkQueue;
  /** Tells the cluster: an event on the Lease. */
  announce(type: "Normal" | "Warning", reason: string, message: string): void;
}

/** The flags that shape a generation. Times are in milliseconds. */
export interface GenerationSettings {
  readonly pluginDirectories: readonly string[];
  readonly cloudProvider: string;
  readonly clusterName: string;
  /** Entries of `--controllers`, aliases resolved. */
  readonly controllers: readonly string[];
  readonly controllerStartInterval: number;
  readonly drainTimeout: number;
  readonly initTimeout: number;
  /** Options of plugins as given on the command line, by plugin name. */
  readonly own: ReadonlyMap<string, Readonly<Record<string, unknown>>>;
}
