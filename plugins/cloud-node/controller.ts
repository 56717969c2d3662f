import {
  CodedError,
  type ComponentConfig,
  type Controller,
  type ControllerContext,
  type Instances,
  isUninitialized,
  keyOf,
  kinds,
  messageOf,
  repeat,
  runTogether,
} from "cloud-controller-host/sdk";

import { initializeNode } from "./initialize.ts";
import { reconcileLabels } from "./label-reconcile.ts";
import { delayMetrics } from "./metrics.ts";
import { nodeWrites } from "./node-writes.ts";
import { updateAllAddresses } from "./status-loop.ts";

type Config = Pick<ComponentConfig, "nodeController" | "nodeStatusUpdateFrequencyMs">;

/** Registers for node changes; `run` works the queue and repeats the address pass until its signal aborts. */
export function nodeController(context: ControllerContext, instances: Instances, config: Config): Controller {
  const { clock, log } = context;
  const { concurrentNodeSyncs, concurrentNodeStatusUpdates } = config.nodeController;
  const nodes = context.informers.of(kinds.Node);
  const queue = context.workqueue("Nodes");
  const delays = delayMetrics(context);
  const writes = nodeWrites(context);
  const registration = nodes.handle({
    added: (node) => queue.add(keyOf(node)),
    updated: (_before, node) => queue.add(keyOf(node)),
  });

  async function sync(name: string, signal: AbortSignal): Promise<void> {
    const node = nodes.store.get(name);
    if (node === undefined) return;
    if (isUninitialized(node))
      await initializeNode({ context, instances, nodes: nodes.store, writes, delays, signal }, node);
    else await reconcileLabels({ writes, signal }, node);
  }

  const workQueue = (signal: AbortSignal): Promise<void> =>
    queue.process({
      workers: concurrentNodeSyncs,
      signal,
      sync: (name) => sync(name, signal),
      failed(name, error) {
        if (signal.aborted) log.debug(2, "left the node to the next generation", { node: name, error });
        else log.error(`error syncing '${name}': ${messageOf(error)}, requeuing`, { node: name, error });
      },
    });

  const addressLoop = (signal: AbortSignal): Promise<void> =>
    repeat({ clock, signal, periodMs: config.nodeStatusUpdateFrequencyMs }, () =>
      updateAllAddresses(
        { context, instances, writes, signal, workers: concurrentNodeStatusUpdates || concurrentNodeSyncs },
        nodes.store.list(),
      ),
    );

  return {
    async run(signal) {
      try {
        await runTogether(signal, concurrentNodeSyncs > 0 ? [workQueue, addressLoop] : [addressLoop]);
      } finally {
        registration.remove();
      }
    },
    check() {
      if (concurrentNodeSyncs < 1)
        throw new CodedError(
          "NoWorkers",
          `--concurrent-node-syncs is ${concurrentNodeSyncs}: no node is ever initialised; set it to 1 or more`,
        );
    },
  };
}
