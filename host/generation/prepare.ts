import {
  type Cloud,
  type CloudContext,
  type CloudPlugin,
  CodedError,
  type Controller,
  type ControllerContext,
  type ControllerPlugin,
  type Decoded,
  type Fence,
  type GenerationContext,
  type InitFunc,
  messageOf,
  ProblemsError,
} from "cloud-controller-host/sdk";

import { within } from "../async/timeout.ts";
import type { GenerationInformers } from "../kube/informers/pool.ts";
import type { GenerationMetrics } from "../process/metrics/metrics.ts";
import type { CloudConfig } from "./cloud-config.ts";
import { decorateCloud } from "./decorate-cloud.ts";
import { enabledPlugins } from "./enabled.ts";
import { Fences } from "./fences.ts";
import { Generation, type Member } from "./generation.ts";
import type { PluginSet } from "./load.ts";
import type { ProcessScope } from "./scope.ts";

/** All that a generation is made of. Kept after a swap, so that the one before can run again. */
export interface Recipe {
  readonly plugins: PluginSet;
  readonly config: CloudConfig;
}

/** What is bound and decoded, and still free of any effect. */
interface Bound {
  readonly cloud: (context: CloudContext) => Promise<Cloud>;
  readonly controllers: readonly {
    readonly plugin: ControllerPlugin;
    readonly lock: string;
    readonly construct: (cloud: Cloud) => InitFunc;
  }[];
}

/** Decodes the cloud config and every enabled plugin's options. Throws `ProblemsError` with all that is wrong. */
function bind(scope: ProcessScope, recipe: Recipe): Bound {
  const { settings, log } = scope;
  const { plugins, config } = recipe;
  const problems = [...scope.locks.problems(plugins.controllers)];
  const take = <T>(from: string, decoded: Decoded<T>): T | undefined => {
    if (!decoded.ok) {
      problems.push(...decoded.problems.map((problem) => `${from}: ${problem}`));
      return undefined;
    }
    for (const warning of decoded.warnings) log.warn(`${from}: ${warning}`);
    return decoded.value;
  };
  const plugin = chosenCloud(plugins.clouds, settings.cloudProvider);
  const cloud = take(config.source, plugin.bind(config.document, scope.environment));
  const controllers = enabledPlugins(settings, plugins).controllers.flatMap((controller) => {
    const place = scope.locks.of(controller);
    if ("runBy" in place) {
      log.info(`Controller is left to ${place.runBy} by the leader migration config`, {
        controller: controller.name,
      });
      return [];
    }
    const construct = take(`options of ${controller.name}`, controller.bind(settings.own.get(controller.name)));
    return construct === undefined
      ? []
      : [{ plugin: controller, lock: place.lock, construct: (made: Cloud) => construct(scope.config, made) }];
  });
  if (problems.length > 0 || cloud === undefined) throw new ProblemsError("the configuration is refused", problems);
  return { cloud, controllers };
}

function chosenCloud(clouds: readonly CloudPlugin[], name: string): CloudPlugin {
  const chosen = clouds.find((cloud) => cloud.name === name);
  if (chosen !== undefined) return chosen;
  const known = clouds.map((cloud) => cloud.name).join(", ") || "none";
  throw new ProblemsError("the configuration is refused", [
    `--cloud-provider=${name}: there is no such cloud plugin; the clouds on offer are: ${known}`,
  ]);
}

/**
 * Makes a generation that is ready to run and has written nothing: plugins bound, cloud created, controllers
 * initialised, informers synced. Whatever fails, all that was made for it is undone before this rejects.
 */
export async function prepare(
  scope: ProcessScope,
  number: number,
  recipe: Recipe,
  signal: AbortSignal,
): Promise<Generation> {
  const bound = bind(scope, recipe);
  await using undo = new AsyncDisposableStack();
  const aborter = new AbortController();
  const abort = (): void => aborter.abort(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  undo.defer(() => signal.removeEventListener("abort", abort));
  const failed = new AsyncDisposableStack();
  undo.defer(() => failed.disposeAsync());
  failed.defer(() => aborter.abort());

  const fences = new Fences(scope.locks);
  failed.defer(() => fences.close());
  const metrics = scope.metrics.generation();
  failed.defer(() => metrics.end());
  const informers = scope.informers.share();
  failed.defer(() => informers.release());
  const maker = new ContextMaker(scope, number, fences, metrics, informers, aborter.signal);

  const cloud = failed.use(await createCloud(scope, bound, maker));
  const members: Member[] = [];
  for (const { plugin, lock, construct } of bound.controllers) {
    const fence = fences.of(lock);
    const context = maker.controller(plugin, fence);
    const init = construct(decorateCloud(cloud, fence, metrics));
    const controller = await initialise(scope, init, context);
    if (controller === undefined) continue;
    members.push({
      name: plugin.name,
      metricName: plugin.aliases[0] ?? plugin.name,
      lock,
      controller,
      log: context.log,
    });
  }
  await informers.synced(aborter.signal);
  signal.throwIfAborted();
  return new Generation({ scope, number, recipe, cloud, members, fences, metrics, aborter, resources: failed.move() });
}

/** Gives each controller, and the cloud, its own context of one generation. */
class ContextMaker {
  readonly #scope: ProcessScope;
  readonly #shared: Pick<GenerationContext, "generation" | "informers" | "metrics" | "clock" | "signal">;
  readonly #fences: Fences;

  constructor(
    scope: ProcessScope,
    generation: number,
    fences: Fences,
    metrics: GenerationMetrics,
    informers: GenerationInformers,
    signal: AbortSignal,
  ) {
    this.#scope = scope;
    this.#fences = fences;
    this.#shared = { generation, informers, metrics, clock: scope.clock, signal };
  }

  controller(plugin: ControllerPlugin, fence: Fence): ControllerContext {
    const context = this.#context(plugin.name, plugin.initContext.clientName, fence);
    return {
      ...context,
      name: plugin.name,
      workqueue: (name, options) => {
        const queue = this.#scope.workqueue(name, { ...options, metrics: context.metrics, log: context.log });
        context.signal.addEventListener("abort", () => queue.shutDown(), { once: true });
        return queue;
      },
    };
  }

  cloud(name: string): CloudContext {
    const { clusterName } = this.#scope.settings;
    const fence = this.#fences.cloud;
    return { ...this.#context(`${name}-cloud-provider`, `${name}-cloud-provider`, fence), clusterName, fence };
  }

  #context(name: string, clientName: string, fence: Fence): GenerationContext {
    return {
      ...this.#shared,
      client: this.#scope.client(clientName, fence),
      events: this.#scope.recorder(name),
      log: this.#scope.log.with({ controller: name, generation: this.#shared.generation }),
    };
  }
}

async function createCloud(scope: ProcessScope, bound: Bound, maker: ContextMaker): Promise<Cloud> {
  const name = scope.settings.cloudProvider;
  try {
    return await limited(scope, `cloud "${name}": create`, bound.cloud(maker.cloud(name)));
  } catch (error) {
    throw new CodedError("CloudFailed", `cloud "${name}" cannot be created: ${messageOf(error)}`, { cause: error });
  }
}

async function initialise(
  scope: ProcessScope,
  init: InitFunc,
  context: ControllerContext,
): Promise<Controller | undefined> {
  const { name } = context;
  let outcome: Awaited<ReturnType<InitFunc>>;
  try {
    outcome = await limited(scope, `init of ${name}`, Promise.try(init, context));
  } catch (error) {
    throw new CodedError("InitFailed", `controller "${name}" cannot be initialised: ${messageOf(error)}`, {
      cause: error,
    });
  }
  if ("skipped" in outcome) {
    context.log.warn(`Controller skipped: ${outcome.skipped}`);
    return undefined;
  }
  if (!isController(outcome))
    throw new CodedError("InitFailed", `controller "${name}": init must return { run(signal) } or skipped("reason")`);
  return outcome;
}

const isController = (value: object): value is Controller => "run" in value && typeof value.run === "function";

async function limited<T>(scope: ProcessScope, what: string, work: Promise<T>): Promise<T> {
  const { clock, settings } = scope;
  const outcome = await within(clock, settings.initTimeout, work);
  if (outcome.done) return outcome.value;
  const seconds = settings.initTimeout / 1000;
  throw new CodedError(
    "InitTimeout",
    `${what} did not return within ${seconds} s (--plugin-init-timeout); long work belongs into run(), init only registers handlers and returns`,
  );
}
