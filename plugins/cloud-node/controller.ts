import {
  anyOf,
  CodedError,
  type ComponentConfig,
  type Controller,
  type ControllerContext,
  FailingObjects,
  filtered,
  type Instances,
  isUninitialized,
  keyOf,
  kinds,
  labelsChanged,
  messageOf,
  type Node,
  objectsWhere,
  repeat,
  runTogether,
} from "cloud-controller-host/sdk";

import { updateAllAddresses } from "./address-loop.ts";
import {
  completeAddresses,
  type DelayMetrics,
  hasNode,
  type Initialization,
  initializeNode,
  type NodeSet,
} from "./initialize.ts";
import { reconcileLabels } from "./labels.ts";
import { graceMs, SyncOutcomes } from "./sync-outcomes.ts";

type Config = Pick<ComponentConfig, "nodeController" | "nodeStatusUpdateFrequencyMs">;

/** Names and buckets are upstream's. */
function delayMetrics({ metrics }: Pick<ControllerContext, "metrics">): DelayMetrics {
  const buckets = [1, 4, 16, 64, 256, 1024];
  return {
    taintRemoved: metrics.histogram({
      name: "node_controller_cloud_provider_taint_removal_delay_seconds",
      help: "Number of seconds after node creation when NodeController removed the cloud-provider taint of a single node.",
      buckets,
    }),
    synced: metrics.histogram({
      name: "node_controller_initial_node_sync_delay_seconds",
      help: "Number of seconds after node creation when NodeController finished the initial synchronization of a single node.",
      buckets,
    }),
  };
}

/** Addresses are not retried before the next pass: only what fails in two of them lasts. */
const failingAddressesOf = ({ clock }: Pick<ControllerContext, "clock">, { nodeStatusUpdateFrequencyMs }: Config) =>
  new FailingObjects("NodesFail", clock, nodeStatusUpdateFrequencyMs + graceMs);

/** All but updates that leave an initialized node with its labels: most of them are reports of its status. */
const needsSync = anyOf<Node>(objectsWhere(isUninitialized), labelsChanged);

/** Initializes a node with the taint. Others get the addresses that they lack, and their labels are reconciled. */
async function syncNode(work: Initialization, name: string): Promise<void> {
  const { context, unanswered, addressless, signal } = work;
  const node = work.nodes.get(name);
  if (node !== undefined && (isUninitialized(node) || hasNode(unanswered, node))) await initializeNode(work, node);
  else if (node !== undefined) {
    if (hasNode(addressless, node)) await completeAddresses(work, node);
    await reconcileLabels({ client: context.client, signal }, node);
  }
  unanswered.delete(name);
  // Other controllers wait for the addresses, such as pools of them: the next pass over all nodes is minutes away.
  if (node !== undefined && hasNode(addressless, node))
    throw new CodedError("AddressesNotWritten", "initialized, but its addresses could not be written");
  addressless.delete(name);
}

/** Registers for node changes; `run` works the queue and repeats the address pass until its signal aborts. */
export function nodeController(context: ControllerContext, instances: Instances, config: Config): Controller {
  const { clock, log } = context;
  const { concurrentNodeSyncs, concurrentNodeStatusUpdates } = config.nodeController;
  const nodes = context.informers.of(kinds.Node);
  const queue = context.workqueue("Nodes");
  const delays = delayMetrics(context);
  const outcomes = new SyncOutcomes(context);
  const { failing } = outcomes;
  const unanswered: NodeSet = new Map();
  const addressless: NodeSet = new Map();
  const failingAddresses = failingAddressesOf(context, config);
  const parts = { context: { ...context, failing: failingAddresses }, instances };
  const enqueue = (node: Node): void => queue.add(keyOf(node));
  const changed = filtered({ added: enqueue, updated: (_before, node) => enqueue(node) }, needsSync);
  const registration = nodes.handle({
    ...changed,
    // The failure of a node ends with it, not minutes later with its next attempt.
    deleted(node) {
      if (failing.size > 0) enqueue(node);
    },
  });

  const sync = (name: string, signal: AbortSignal): Promise<void> => {
    const synced = (node: Node): void => outcomes.synced(node);
    return syncNode({ ...parts, nodes: nodes.store, delays, unanswered, addressless, synced, signal }, name);
  };

  const workQueue = (signal: AbortSignal): Promise<void> =>
    queue.process({
      workers: concurrentNodeSyncs,
      signal,
      async sync(name) {
        try {
          await sync(name, signal);
          failing.ended(name);
        } catch (error) {
          if (!signal.aborted) outcomes.failed(name, nodes.store.get(name), error);
          throw error;
        } finally {
          if (queue.length === 0 || outcomes.full) await outcomes.report();
        }
      },
      failed(name, error) {
        if (signal.aborted) log.debug(2, "Node left to the next generation", { node: name, error });
        else log.error(`error syncing '${name}': ${messageOf(error)}, requeuing`, { node: name, error });
      },
    });

  const addressLoop = (signal: AbortSignal): Promise<void> =>
    repeat({ clock, signal, periodMs: config.nodeStatusUpdateFrequencyMs }, () =>
      updateAllAddresses(
        { ...parts, signal, workers: concurrentNodeStatusUpdates || concurrentNodeSyncs },
        nodes.store.list(),
      ),
    );

  return {
    async run(signal) {
      try {
        await runTogether(signal, concurrentNodeSyncs > 0 ? [workQueue, addressLoop] : [addressLoop]);
      } finally {
        registration.remove();
        await outcomes.report();
      }
    },
    status: () => (failing.size === 0 ? [] : [{ title: `nodes that fail: ${failing.size}`, facts: failing.facts }]),
    warnings: () => [...failing.warnings, ...failingAddresses.warnings],
    check() {
      if (concurrentNodeSyncs < 1)
        throw new CodedError(
          "InvalidFlags",
          `--concurrent-node-syncs is ${concurrentNodeSyncs}: no node is ever initialized; set it to 1 or more`,
        );
    },
  };
}
