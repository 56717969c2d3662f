import type { Clock } from "cloud-controller-host/sdk";

import type { LeftOutPlugin } from "../plugins/load.ts";
import type { Phase } from "./states.ts";

/** A controller that does not run in a generation, and why. */
export interface SkippedController {
  readonly name: string;
  readonly reason: string;
}

/** True for a controller that the operator turned off by a flag: neither a warning nor a problem. */
export const isTurnedOff = (reason: string): boolean => /^--\S+ is false$/u.test(reason);

/** A controller whose `run` ended before its signal was aborted. */
export interface RunFailure {
  readonly name: string;
  readonly reason: string;
  /** The error thrown; undefined if it returned. */
  readonly error?: unknown;
}

/** The generation that follows a failure. */
export interface NextRun {
  /** In words. */
  readonly outcome: string;
  /** The failed generation's own plugins and config: no reload has failed. */
  readonly isRestart: boolean;
}

/** Something that happened, and when (RFC 3339). */
export interface Dated {
  readonly at: string;
  readonly reason: string;
}

/** A failed generation that gave way to another one. */
export interface Rollback extends Dated {
  readonly generation: number;
  readonly controller: string;
  /** Action taken. */
  readonly outcome: string;
  /** The generation that runs in its place, and the one whose plugins and config it has; undefined until it runs. */
  readonly replacement: { readonly generation: number; readonly of: number } | undefined;
}

/** Outcome of a reload: `unchanged` if config and plugins are those that run, `superseded` by a newer reload or the end. */
export interface ReloadOutcome extends Dated {
  /** The trigger. */
  readonly trigger: string;
  readonly result: "reloaded" | "unchanged" | "refused" | "disabled" | "superseded";
}

/** The trigger of a reload that was refused, and is tried again without a change. */
export const retryTrigger = "retry of a refused reload";

/** A reload that changed something, or was to. Times in seconds. */
export interface ReloadRecord extends ReloadOutcome {
  /** Keys of the cloud config, never their values, and `plugins`. Empty where the config could not be read. */
  readonly changed: readonly string[];
  /** From the trigger until the next generation was ready, or was refused. */
  readonly preparing?: number;
  /** Until the controllers of the generation before had returned and those of the next had started. */
  readonly swapping?: number;
}

export interface RefusedPlugin extends LeftOutPlugin, Dated {}

/** Generations as `/statusz` shows them. Contents of the cloud config never appear, only their hash. */
export interface ReloadStatus {
  readonly phase: Phase;
  readonly generation: number;
  /** When the generation began to run; undefined while none does. */
  readonly generationStartedAt: string | undefined;
  readonly configHash: string;
  readonly pluginHash: string;
  readonly controllers: readonly string[];
  /** Conditions of the controllers that need an operator; empty in normal operation. */
  readonly warnings: readonly string[];
  /** Enabled controllers that do not run in this generation. */
  readonly skipped: readonly SkippedController[];
  /** False on a standby, and while the cloud provider is disabled by its config. */
  readonly running: boolean;
  readonly disabled: boolean;
  readonly reloads: number;
  readonly lastReloadAt: string | undefined;
  /** Outcome of the last reload, also without a change; undefined before the first. */
  readonly lastOutcome: ReloadOutcome | undefined;
  /** The latest reloads, oldest first. */
  readonly recentReloads: readonly ReloadRecord[];
  /** The last reload that was refused or rolled back; undefined once a later one has succeeded. */
  readonly lastRefusal: Dated | undefined;
  /** The last generation that failed as it ran. Stays until the process ends. */
  readonly lastRollback: Rollback | undefined;
  /** Third-party plugins missing from the active generation. They load once they are fixed. */
  readonly refusedPlugins: readonly RefusedPlugin[];
  /** Controllers that have not returned a second after they were asked to, while the drain lasts. */
  readonly waitingFor: readonly string[];
  /** The last drain that exceeded its limit. Stays until the process ends. */
  readonly lastOverdueDrain: Dated | undefined;
  /** Plugin work that has not returned. */
  readonly outstanding: readonly { readonly name: string; readonly kind: string; readonly since: string }[];
}

/** The part of it that the report keeps. */
export type Reported = Pick<
  ReloadStatus,
  | "generationStartedAt"
  | "disabled"
  | "reloads"
  | "lastReloadAt"
  | "lastOutcome"
  | "recentReloads"
  | "lastRefusal"
  | "lastRollback"
  | "refusedPlugins"
  | "waitingFor"
  | "lastOverdueDrain"
>;

/** Before anything has been reported. */
export const nothingReported: Reported = {
  generationStartedAt: undefined,
  disabled: false,
  reloads: 0,
  lastReloadAt: undefined,
  lastOutcome: undefined,
  recentReloads: [],
  lastRefusal: undefined,
  lastRollback: undefined,
  refusedPlugins: [],
  waitingFor: [],
  lastOverdueDrain: undefined,
};

/** The status that has been reported so far, with the clock of its times. */
export class KeptStatus {
  readonly #clock: Pick<Clock, "now">;
  #reported = nothingReported;

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  get current(): Reported {
    return this.#reported;
  }

  set(change: Partial<Reported>): void {
    this.#reported = { ...this.#reported, ...change };
  }

  /** RFC 3339. */
  now(): string {
    return new Date(this.#clock.now()).toISOString();
  }
}

/** A pause in a log line, such as `7s`. */
export const retryAfterText = (pauseMs: number): string => `${Math.ceil(pauseMs / 1000)}s`;
