import type {
  CloudContext,
  ControllerContext,
  ControllerPlugin,
  Fence,
  GenerationContext,
} from "cloud-controller-host/sdk";

import type { GenerationInformers } from "../../kube/informers/share.ts";
import type { GenerationMetrics } from "../../process/metrics/metrics.ts";
import type { ProcessScope } from "../scope/scope.ts";

/** The parts of a context that belong to one plugin of one generation. */
export interface PluginResources {
  readonly informers: GenerationInformers;
  readonly fence: Fence;
  readonly signal: AbortSignal;
}

/** Builds the context of each controller, and of the cloud, for one generation. */
export class GenerationContexts {
  readonly #scope: ProcessScope;
  readonly #generation: number;
  readonly #metrics: GenerationMetrics;

  constructor(scope: ProcessScope, generation: number, metrics: GenerationMetrics) {
    this.#scope = scope;
    this.#generation = generation;
    this.#metrics = metrics;
  }

  controller(plugin: ControllerPlugin, resources: PluginResources): ControllerContext {
    const context = this.#context(plugin.name, plugin.initContext.clientName, resources);
    return {
      ...context,
      name: plugin.name,
      ...(this.#scope.shards && { shards: this.#scope.shards }),
      workqueue: (name, options) => {
        const { metrics, log, signal } = context;
        const queue = this.#scope.workqueue(name, { ...options, metrics, log, owner: plugin.name });
        signal.addEventListener("abort", () => queue.shutDown(), { once: true });
        if (signal.aborted) queue.shutDown();
        return queue;
      },
    };
  }

  cloud(name: string, changedKeys: readonly string[], resources: PluginResources): CloudContext {
    const { confirmations, settings } = this.#scope;
    const { clusterName, shard } = settings;
    const fullName = `${name}-cloud-provider`;
    return {
      ...this.#context(fullName, fullName, resources),
      clusterName,
      ...(shard !== undefined && { shard }),
      ...(this.#scope.shards && { shards: this.#scope.shards }),
      changedKeys,
      fence: resources.fence,
      ...(confirmations && { confirmations }),
      recordWrite: (write) => this.#scope.recordWrite(fullName, this.#generation, write),
    };
  }

  #context(name: string, clientName: string, { informers, fence, signal }: PluginResources): GenerationContext {
    const { clock, log } = this.#scope;
    return {
      generation: this.#generation,
      informers,
      metrics: this.#metrics,
      clock,
      signal,
      client: this.#scope.client(clientName, fence, this.#generation),
      events: this.#scope.recorder(name),
      log: log.with({ controller: name, generation: this.#generation }),
    };
  }
}
