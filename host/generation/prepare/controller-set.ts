import {
  type Cloud,
  CodedError,
  type Controller,
  type ControllerContext,
  type ControllerPlugin,
  type InitFunc,
  messageOf,
  type Skipped,
} from "cloud-controller-host/sdk";

import { bounded } from "../../async/bounded.ts";
import { isTurnedOff, type SkippedController } from "../report/reload-status.ts";
import type { RunReport } from "../report/run-report.ts";
import { ControllerFence } from "../scope/fence.ts";
import type { Fences } from "../scope/fences.ts";
import type { ProcessScope } from "../scope/scope.ts";
import type { ManagedController } from "../slot/controller-runs.ts";
import type { BoundController } from "./bind.ts";
import type { PluginResources } from "./contexts.ts";
import { limits, type OwnParts, type PluginParts } from "./plugin-parts.ts";

/** Inputs of the controllers of one generation. */
export interface ControllerMaking {
  readonly scope: ProcessScope;
  readonly report: RunReport;
  readonly parts: PluginParts;
  readonly fences: Fences;
  /** Ends the work of the generation. */
  readonly signal: AbortSignal;
  /** The cloud as a controller with this fence sees it. */
  readonly cloudFor: (fence: ControllerFence) => Cloud;
  readonly contextFor: (plugin: ControllerPlugin, resources: PluginResources) => ControllerContext;
  /** True if this controller is left out when it cannot be created; the failure of any other refuses the generation. */
  readonly mayLeaveOut: (plugin: ControllerPlugin) => boolean;
  /** True if this controller is restarted when its run fails; the failure of any other ends the generation. */
  readonly mayRetry: (plugin: ControllerPlugin) => boolean;
}

/** Initializes the controllers of one generation, one after the other, and leaves out those that may be. */
export class ControllerSet {
  /** Including what runs in the place of skipped ones. */
  readonly controllers: ManagedController[] = [];
  readonly skipped: SkippedController[] = [];
  readonly leftOut: string[] = [];
  readonly #making: ControllerMaking;
  readonly #synced: (() => Promise<void>)[] = [];

  constructor(making: ControllerMaking) {
    this.#making = making;
  }

  async add(bound: BoundController): Promise<void> {
    const { plugin } = bound;
    const { parts } = this.#making;
    try {
      const { made, own } = await this.#make(bound);
      if (made.controller === undefined) this.skipped.push({ name: plugin.name, reason: made.skipped });
      this.controllers.push(made);
      if (made.controller === undefined) return;
      this.#synced.push(async () => {
        try {
          await parts.synced(`controller "${plugin.name}"`, own);
        } catch (error) {
          this.#leaveOut(plugin, error);
          made.stop();
          this.controllers.splice(this.controllers.indexOf(made), 1);
        }
      });
    } catch (error) {
      this.#leaveOut(plugin, error);
    }
  }

  /** Waits for the informers of all controllers at once. */
  async synced(): Promise<void> {
    await Promise.all(this.#synced.map((wait) => wait()));
  }

  /** Throws the error where the controller may not be left out. */
  #leaveOut(plugin: ControllerPlugin, error: unknown): void {
    const { signal, mayLeaveOut, report } = this.#making;
    if (signal.aborted || !mayLeaveOut(plugin)) throw error;
    const reason = messageOf(error);
    report.pluginRefused({ plugin: plugin.name, reason }, error);
    this.leftOut.push(plugin.name);
    this.skipped.push({ name: plugin.name, reason });
  }

  /** Initializes a controller with a fence, a signal and informers of its own. */
  async #make(bound: BoundController): Promise<{ made: ManagedController; own: OwnParts }> {
    const { scope, parts, fences, cloudFor, contextFor, mayRetry } = this.#making;
    const { plugin, lock } = bound;
    const fence = new ControllerFence(fences.of(lock));
    const own = parts.open(fence);
    const stop = (): void => {
      fence.close();
      own.abort();
    };
    try {
      const context = contextFor(plugin, own.resources);
      const { signal } = own.resources;
      const init = (construct: InitFunc): ReturnType<InitFunc> => construct(context);
      const outcome = await initialize(scope, bound, cloudFor(fence), init, signal);
      const { log } = context;
      const { name } = plugin;
      const again = mayRetry(plugin) ? (): Promise<ManagedController> => this.#makeAgain(bound) : undefined;
      const quiet = (): Promise<unknown> => Promise.all([fence.quiet(), scope.outstanding.returned(initOf(name))]);
      const base = { name, metricName: plugin.aliases[0] ?? name, lock, log, stop, quiet, again };
      if (!("skipped" in outcome))
        return {
          made: {
            ...base,
            controller: outcome,
            skipped: "",
            run: () => outcome.run(signal),
            everyReplica: outcome.everyReplica && (async () => outcome.everyReplica?.(signal)),
          },
          own,
        };
      const message = `Controller skipped: ${outcome.skipped}`;
      if (isTurnedOff(outcome.skipped)) log.info(message);
      else log.warn(message);
      const { informers } = own.resources;
      const run = async (): Promise<void> => {
        if (outcome.run === undefined) return untilAborted(signal);
        // Only the abort ends the wait otherwise: a generation does not wait for what is skipped.
        const isSynced = await informers.synced(signal).then(
          () => true,
          () => false,
        );
        if (isSynced) await outcome.run(signal);
      };
      const made = { ...base, controller: undefined, skipped: outcome.skipped, run, everyReplica: undefined };
      return { made, own };
    } catch (error) {
      stop();
      throw error;
    }
  }

  async #makeAgain(bound: BoundController): Promise<ManagedController> {
    const { made, own } = await this.#make(bound);
    try {
      await this.#making.parts.synced(`controller "${made.name}"`, own);
      return made;
    } catch (error) {
      made.stop();
      throw error;
    }
  }
}

const initOf = (controller: string): string => `init of ${controller}`;

async function initialize(
  scope: ProcessScope,
  { plugin: { name }, construct }: BoundController,
  cloud: Cloud,
  run: (init: InitFunc) => ReturnType<InitFunc>,
  signal: AbortSignal,
): Promise<Awaited<ReturnType<InitFunc>>> {
  let outcome: unknown;
  try {
    outcome = await bounded(limits(scope, "init", initOf(name), signal), () =>
      scope.loopOwner.run(name, () => run(construct(cloud))),
    );
  } catch (error) {
    signal.throwIfAborted();
    throw new CodedError("InitFailed", `controller "${name}" cannot be initialized: ${messageOf(error)}`, {
      cause: error,
    });
  }
  return outcomeOf(name, outcome);
}

/** The result of an init function, which the type check of a plugin need not have seen. */
export function outcomeOf(name: string, outcome: unknown): Controller | Skipped {
  if (isController(outcome) || isSkipped(outcome)) return outcome;
  throw new CodedError("InitFailed", `controller "${name}": init must return { run(signal) } or skipped("reason")`);
}

const isController = (value: unknown): value is Controller =>
  typeof value === "object" && value !== null && "run" in value && typeof value.run === "function";

const isSkipped = (value: unknown): value is Skipped =>
  typeof value === "object" && value !== null && "skipped" in value && typeof value.skipped === "string";

const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
