import type { CompletedConfig } from "../config.ts";
import type { ControllerContext } from "../context.ts";
import type { KubeClient } from "../kube.ts";
import type { ControllerPlugin } from "../plugin.ts";

/** Provides an API server and controller contexts like the host's. `cloud-controller-host/sandbox` has one. */
export interface ControllerHarness {
  /** Starts an empty cluster for one test of the plugin; it serves the kinds that the plugin declares. */
  open(plugin: ControllerPlugin): Promise<ControllerWorld>;
}

/** An empty cluster for one test. */
export interface ControllerWorld extends AsyncDisposable {
  /** With periods of a few tens of milliseconds and every feature enabled. */
  readonly config: Omit<CompletedConfig, "own">;
  /** The test's own client. */
  readonly admin: KubeClient;
  /** Its disposal aborts the signal and closes the fence. */
  generation(plugin: ControllerPlugin): ControllerGeneration;
}

/** One generation of the plugin: its context, as the host makes it. */
export interface ControllerGeneration extends AsyncDisposable {
  readonly context: ControllerContext;
  /** Resolves when all informers have synced and show the writes of earlier generations. */
  synced(): Promise<void>;
  /** Absent when the harness cannot count timers; sleeps on the context's clock are always counted. */
  readonly timers?: TimerWatch;
}

/** Counts the runtime's timers that a controller sets directly rather than through its clock. */
export interface TimerWatch {
  /** Calls `work`; timers that it sets, now or later, are counted. */
  inside<T>(work: () => T): T;
  /** Number of timers that are pending. */
  readonly open: number;
}
