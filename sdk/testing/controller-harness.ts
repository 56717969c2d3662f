import type { CompletedConfig } from "../config.ts";
import type { ControllerContext } from "../context.ts";
import type { KubeClient } from "../kube.ts";
import type { ControllerPlugin } from "../plugin.ts";

/** What the suite needs of a host: an API server, and contexts on it as the host makes them. */
export interface ControllerHarness {
  /** Makes an empty cluster for one test. */
  open(): Promise<ControllerWorld>;
}

export interface ControllerWorld extends AsyncDisposable {
  /** The periods in it should be short, a few tens of milliseconds, and everything that can be switched on be on. */
  readonly config: Omit<CompletedConfig, "own">;
  /** A client that is not the controller's. */
  readonly admin: KubeClient;
  generation(plugin: ControllerPlugin): ControllerGeneration;
}

export interface ControllerGeneration extends AsyncDisposable {
  readonly context: ControllerContext;
  /** Resolves when all informers that were asked for have synced, and show what earlier generations have written. */
  synced(): Promise<void>;
  /** Left out by a harness that cannot tell; sleeps on the context's clock are counted in any case. */
  readonly timers?: TimerWatch;
}

/** Counts the timers of the runtime that a controller sets by itself, past the clock that it is given. */
export interface TimerWatch {
  /** Calls the work; timers that it sets, now or later, are counted. */
  inside<T>(work: () => T): T;
  /** How many of them are still to fire. */
  readonly open: number;
}
