import {
  type Cloud,
  CodedError,
  type Controller,
  type ControllerContext,
  type ControllerPlugin,
  type Fence,
  type InitFunc,
  messageOf,
  type Skipped,
} from "cloud-controller-host/sdk";

import { bounded } from "../../async/bounded.ts";
import { LinkedSignal } from "../../async/linked-signal.ts";
import type { WorkKind } from "../../async/outstanding-work.ts";
import type { GenerationInformers } from "../../kube/informers/pool.ts";
import type { ReloadReport, SkippedController } from "../report/reload-report.ts";
import { GenerationCaches } from "../scope/caches.ts";
import { Fences } from "../scope/fences.ts";
import type { ProcessScope } from "../scope/scope.ts";
import {
  disposeWithin,
  Generation,
  type GenerationSpec,
  type ManagedController,
  type Substitute,
} from "../slot/generation.ts";
import { bind, type BoundController } from "./bind.ts";
import { GenerationContexts, type PluginResources } from "./contexts.ts";
import { decorateCloud } from "./decorate-cloud.ts";

export interface Preparation {
  readonly scope: ProcessScope;
  readonly report: ReloadReport;
  readonly number: number;
  readonly spec: GenerationSpec;
  /** Ends the preparation; everything made so far is undone. */
  readonly signal: AbortSignal;
  /** Whether this controller is left out when it fails, where any other's failure refuses the generation. */
  readonly mayLeaveOut: (controller: ControllerPlugin) => boolean;
}

/**
 * Makes a generation that is ready to run and has written nothing: plugins bound, cloud created, controllers
 * initialized, informers synced. Whatever fails, all that was made for it is undone before this rejects.
 */
export async function prepare(preparation: Preparation): Promise<Generation> {
  const { scope, report, number, spec, signal } = preparation;
  signal.throwIfAborted();
  const failed = new AsyncDisposableStack();
  await using undo = new AsyncDisposableStack();
  const aborter = new AbortController();
  undo.defer(async () => {
    // It was moved into the generation.
    if (failed.disposed) return;
    aborter.abort();
    await disposeWithin(scope, number, failed);
  });
  failed.defer(spec.plugins.retain());
  const bound = bind(scope, spec);
  const abort = (): void => aborter.abort(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  undo.defer(() => signal.removeEventListener("abort", abort));
  const fences = new Fences(scope.locks);
  failed.defer(() => fences.close());
  const metrics = scope.metrics.generation();
  failed.defer(() => metrics.end());
  const parts = new PluginParts(scope, aborter.signal, failed);
  const contexts = new GenerationContexts(scope, number, metrics);

  const { cloudProvider } = scope.settings;
  const cloudParts = parts.open(fences.cloud);
  const create = (): Promise<Cloud> => bound.cloud(contexts.cloud(cloudProvider, cloudParts.resources));
  const cloud = failed.use(await createCloud(scope, aborter.signal, create));
  const set = new ControllerSet(preparation, aborter.signal, parts);
  for (const each of bound.controllers) {
    const fence = fences.of(each.lock);
    const decorated = decorateCloud(cloud, fence, metrics);
    await set.add(each, decorated, fence, (resources) => contexts.controller(each.plugin, resources));
  }
  await Promise.all([parts.synced(`cloud "${cloudProvider}"`, cloudParts), set.synced()]);
  signal.throwIfAborted();
  const { controllers, substitutes, skipped, leftOut } = set;
  const caches = new GenerationCaches(scope, parts.shares);
  const made = { cloud, controllers, substitutes, skipped, leftOut, fences, caches, metrics, aborter };
  return new Generation({ scope, report, number, spec, ...made, resources: failed.move() });
}

/** Initializes the controllers of one generation, one after the other, and leaves out those that may be. */
class ControllerSet {
  readonly controllers: ManagedController[] = [];
  readonly substitutes: Substitute[] = [];
  readonly skipped: SkippedController[] = [];
  readonly leftOut: string[] = [];
  readonly #preparation: Preparation;
  readonly #signal: AbortSignal;
  readonly #parts: PluginParts;
  readonly #synced: (() => Promise<void>)[] = [];

  constructor(preparation: Preparation, signal: AbortSignal, parts: PluginParts) {
    this.#preparation = preparation;
    this.#signal = signal;
    this.#parts = parts;
  }

  async add(
    bound: BoundController,
    cloud: Cloud,
    fence: Fence,
    contextOf: (resources: PluginResources) => ControllerContext,
  ): Promise<void> {
    const { plugin, lock } = bound;
    const { name } = plugin;
    const own = this.#parts.open(fence);
    const context = contextOf(own.resources);
    try {
      const init = (construct: InitFunc): ReturnType<InitFunc> => construct(context);
      const controller = await initialize(this.#preparation.scope, bound, cloud, init, this.#signal);
      const managed = { name, metricName: plugin.aliases[0] ?? name, lock, log: context.log };
      if ("skipped" in controller) {
        context.log.warn(`Controller skipped: ${controller.skipped}`);
        this.skipped.push({ name, reason: controller.skipped });
        if (controller.run !== undefined) this.substitutes.push({ ...managed, run: controller.run });
        return;
      }
      const running = { ...managed, controller };
      this.controllers.push(running);
      this.#synced.push(async () => {
        try {
          await this.#parts.synced(`controller "${name}"`, own);
        } catch (error) {
          this.#leaveOut(plugin, own, error);
          this.controllers.splice(this.controllers.indexOf(running), 1);
        }
      });
    } catch (error) {
      this.#leaveOut(plugin, own, error);
    }
  }

  /** Waits for the informers of all controllers at once. */
  async synced(): Promise<void> {
    await Promise.all(this.#synced.map((wait) => wait()));
  }

  /** Throws the error where the controller may not be left out. */
  #leaveOut(plugin: ControllerPlugin, own: OwnParts, error: unknown): void {
    if (this.#signal.aborted || !this.#preparation.mayLeaveOut(plugin)) throw error;
    own.abort();
    const reason = messageOf(error);
    this.#preparation.report.pluginRefused({ plugin: plugin.name, reason });
    this.leftOut.push(plugin.name);
    this.skipped.push({ name: plugin.name, reason });
  }
}

interface OwnParts {
  readonly resources: PluginResources;
  /** Ends what was made for this plugin alone. */
  abort(): void;
}

/** A share of the informers and a signal for each plugin, so that one can be left out and a failure names its plugin. */
class PluginParts {
  readonly #scope: ProcessScope;
  readonly #signal: AbortSignal;
  readonly #undo: AsyncDisposableStack;
  readonly shares: GenerationInformers[] = [];

  constructor(scope: ProcessScope, signal: AbortSignal, undo: AsyncDisposableStack) {
    this.#scope = scope;
    this.#signal = signal;
    this.#undo = undo;
  }

  open(fence: PluginResources["fence"]): OwnParts {
    const link = this.#undo.use(new LinkedSignal(this.#signal));
    const informers = this.#scope.informers.share();
    this.shares.push(informers);
    this.#undo.defer(() => informers.release());
    const abort = (): void => {
      link.abort(new CodedError("LeftOut", "the plugin is left out"));
      informers.release();
    };
    return { resources: { informers, fence, signal: link.signal }, abort };
  }

  /** Resolves when every informer that the plugin asked for has synced; rejects with the kinds that have not. */
  async synced(owner: string, { resources: { informers, signal } }: OwnParts): Promise<void> {
    const late = new AbortController();
    using link = new LinkedSignal(signal, late.signal);
    try {
      const name = `informer sync of ${owner}`;
      await bounded(limits(this.#scope, "sync", name, signal), () => informers.synced(link.signal));
    } catch (error) {
      const kinds = informers.unsynced.join(", ");
      late.abort(error);
      signal.throwIfAborted();
      throw new CodedError(
        "SyncFailed",
        `${owner}: ${kinds} did not sync within ${this.#scope.settings.initTimeout / 1000} s (--plugin-init-timeout); check that the API server serves these kinds and that RBAC allows list and watch`,
        { cause: error },
      );
    }
  }
}

const limits = (scope: ProcessScope, kind: WorkKind, name: string, signal: AbortSignal) => ({
  kind,
  name,
  clock: scope.clock,
  outstanding: scope.outstanding,
  limitMs: scope.settings.initTimeout,
  hint: "--plugin-init-timeout; long work belongs into run()",
  signal,
});

async function createCloud(scope: ProcessScope, signal: AbortSignal, create: () => Promise<Cloud>): Promise<Cloud> {
  const name = scope.settings.cloudProvider;
  const late = (cloud: Cloud): Promise<void> => Promise.resolve(cloud[Symbol.asyncDispose]());
  try {
    return await bounded({ ...limits(scope, "create", `cloud "${name}": create`, signal), late }, create);
  } catch (error) {
    signal.throwIfAborted();
    throw new CodedError("CloudFailed", `cloud "${name}" cannot be created: ${messageOf(error)}`, { cause: error });
  }
}

async function initialize(
  scope: ProcessScope,
  { plugin: { name }, construct }: BoundController,
  cloud: Cloud,
  run: (init: InitFunc) => ReturnType<InitFunc>,
  signal: AbortSignal,
): Promise<Awaited<ReturnType<InitFunc>>> {
  let outcome: unknown;
  try {
    outcome = await bounded(limits(scope, "init", `init of ${name}`, signal), () =>
      scope.loopOwner.run(name, () => run(construct(cloud))),
    );
  } catch (error) {
    signal.throwIfAborted();
    throw new CodedError("InitFailed", `controller "${name}" cannot be initialized: ${messageOf(error)}`, {
      cause: error,
    });
  }
  if (isController(outcome) || isSkipped(outcome)) return outcome;
  throw new CodedError("InitFailed", `controller "${name}": init must return { run(signal) } or skipped("reason")`);
}

const isController = (value: unknown): value is Controller =>
  typeof value === "object" && value !== null && "run" in value && typeof value.run === "function";

const isSkipped = (value: unknown): value is Skipped =>
  typeof value === "object" && value !== null && "skipped" in value && typeof value.skipped === "string";
