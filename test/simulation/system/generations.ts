import type {
  Cloud,
  CloudPlugin,
  Controller,
  ControllerPlugin,
  InformerHandler,
  Informers,
  InitFunc,
  KubeObject,
} from "cloud-controller-host/sdk";

import type { LoadedPlugins } from "../../../host/generation/plugins/load.ts";
import type { VirtualRuntime } from "./runtime/virtual-runtime.ts";

/**
 * The generations of one process. Everything that a generation does begins in one of its plugins, so each plugin works in
 * the asynchronous context of its generation: the host binds the cloud first, and then the controllers with it. Handlers of
 * informers do as well: the watch that calls them may have begun for a former generation.
 */
export class Generations {
  readonly #runtime: VirtualRuntime;
  #bound = 0;
  /** The newest one that has begun to run. */
  #newest = 0;

  constructor(runtime: VirtualRuntime) {
    this.#runtime = runtime;
  }

  /** True if no newer generation has begun to run. */
  isNewest(generation: number | undefined): boolean {
    return generation !== undefined && generation >= this.#newest;
  }

  plugins(plugins: LoadedPlugins): LoadedPlugins {
    return {
      ...plugins,
      clouds: plugins.clouds.map(this.#cloud),
      controllers: plugins.controllers.map(this.#controller),
    };
  }

  readonly #cloud = (plugin: CloudPlugin): CloudPlugin => ({
    ...plugin,
    bind: (document, environment) => {
      const generation = ++this.#bound;
      const bound = plugin.bind(document, environment);
      if (!bound.ok) return bound;
      const create: typeof bound.value = (context) =>
        this.#runtime.asGeneration(generation, async () =>
          this.#created(generation, await bound.value(this.#handling(generation, context))),
        );
      return { ...bound, value: create };
    },
  });

  readonly #controller = (plugin: ControllerPlugin): ControllerPlugin => ({
    ...plugin,
    bind: (own) => {
      const generation = this.#bound;
      const bound = plugin.bind(own);
      if (!bound.ok) return bound;
      const construct: typeof bound.value = (config, cloud) => this.#init(generation, bound.value(config, cloud));
      return { ...bound, value: construct };
    },
  });

  #created(generation: number, cloud: Cloud): Cloud {
    const run = cloud.run?.bind(cloud);
    return run === undefined ? cloud : Object.assign(cloud, { run: this.#running(generation, run) });
  }

  #init(generation: number, init: InitFunc): InitFunc {
    return (context) =>
      this.#runtime.asGeneration(generation, async () => {
        const outcome = await init(this.#handling(generation, context));
        if ("skipped" in outcome) return outcome;
        return Object.assign(outcome, { run: this.#running(generation, outcome.run.bind(outcome)) });
      });
  }

  #running(generation: number, run: Controller["run"]): Controller["run"] {
    return (signal) => {
      this.#newest = Math.max(this.#newest, generation);
      return this.#runtime.asGeneration(generation, () => run(signal));
    };
  }

  #handling<Context extends { readonly informers: Informers }>(generation: number, context: Context): Context {
    const run = (work: () => void): void => this.#runtime.asGeneration(generation, work);
    const handlerOf = <T extends KubeObject>(handler: InformerHandler<T>): InformerHandler<T> => ({
      added: (object) => run(() => handler.added?.(object)),
      updated: (before, after) => run(() => handler.updated?.(before, after)),
      deleted: (last) => run(() => handler.deleted?.(last)),
    });
    const informers: Informers = {
      of(kind, options) {
        const informer = context.informers.of(kind, options);
        return {
          store: informer.store,
          hasSynced: () => informer.hasSynced(),
          handle: (handler, how) => informer.handle(handlerOf(handler), how),
        };
      },
    };
    return { ...context, informers };
  }
}
