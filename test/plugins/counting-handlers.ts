import type {
  Clock,
  Cloud,
  Controller,
  ControllerPlugin,
  Informer,
  Informers,
  KindRef,
  KubeObject,
} from "cloud-controller-host/sdk";

import { defaultOptions, type Options } from "../../host/config/flags/options.ts";
import { complete } from "../../host/config/validate/complete.ts";
import type { TestCluster } from "../kit/harness.ts";

interface Counted {
  readonly controller: Controller;
  /** Handlers that are registered with informers now. */
  readonly handlers: () => number;
  /** Resync periods of all handlers registered so far, in milliseconds. */
  readonly resyncs: () => readonly (number | undefined)[];
}

/** Initializes the plugin and counts the handlers that it has registered with informers. */
export async function initCounted(
  cluster: TestCluster,
  plugin: ControllerPlugin,
  options: { readonly cloud: Cloud; readonly clock: Clock; readonly flags?: Partial<Options> },
): Promise<Counted> {
  const generation = cluster.generation(plugin, options);
  let handlers = 0;
  const resyncs: (number | undefined)[] = [];
  const informers: Informers = {
    of<T extends KubeObject>(kind: KindRef<T>): Informer<T> {
      const informer = generation.context.informers.of(kind);
      return {
        store: informer.store,
        hasSynced: () => informer.hasSynced(),
        handle(handler, how) {
          const registration = informer.handle(handler, how);
          handlers++;
          resyncs.push(how?.resyncMs);
          return {
            remove() {
              registration.remove();
              handlers--;
            },
          };
        },
      };
    },
  };
  const bound = plugin.bind(undefined);
  if (!bound.ok) throw new Error(bound.problems.join("; "));
  const init = bound.value(complete({ ...defaultOptions, ...options.flags }), options.cloud);
  const controller = await init({ ...generation.context, informers });
  if ("skipped" in controller) throw new Error(controller.skipped);
  await generation.synced();
  return { controller, handlers: () => handlers, resyncs: () => resyncs };
}
