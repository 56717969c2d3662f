import {
  type Clock,
  type Cloud,
  type Controller,
  type ControllerContext,
  FailingObjects,
  keyOf,
  kinds,
  messageOf,
  type Node,
  repeat,
  runTogether,
  type WorkQueue,
} from "cloud-controller-host/sdk";

import { chooseAllocator } from "./allocation/allocators.ts";
import { listNodes, OrphanAudit } from "./allocation/audit.ts";
import { findControllerManager } from "./allocation/other-allocator.ts";
import { StarvedNodes } from "./allocation/starved.ts";
import { Suspension } from "./allocation/suspension.ts";
import { syncNode, type SyncParts } from "./allocation/sync.ts";
import { Allocations } from "./cidrset/allocations.ts";
import { ipamMetrics } from "./metrics.ts";
import { ipamEvents } from "./nodes/events.ts";
import { podCidrTexts } from "./nodes/pod-cidrs.ts";
import { NodeRecords } from "./nodes/records.ts";
import type { IpamSettings } from "./settings.ts";

const workers = 30;
/** Pauses between attempts to list the nodes. */
const pausesMs = { first: 1_000, longest: 30_000 };
/** A shorter failure is only logged. */
const failureGraceMs = 60_000;
/** Pause between two checks for another allocator. */
const reviewMs = 60_000;

/** Registers for nodes. `run` lists the allocated CIDRs first and then allocates for nodes, until its signal aborts. */
export function ipamController(context: ControllerContext, cloud: Cloud, settings: IpamSettings): Controller {
  const { clock, log } = context;
  const allocator = chooseAllocator(context, settings, cloud);
  const nodes = context.informers.of(kinds.Node);
  const queue = context.workqueue("node-ipam");
  const suspension = new Suspension({ ...context, resumed: () => enqueueWaiting() });
  const starved = new StarvedNodes();
  const failing = new FailingObjects("NodesFail", clock, failureGraceMs);
  /** True from the begin of the initial list: a change during the list is processed after it. */
  let listening = false;
  /** Undefined until the initial list is done. */
  let records: NodeRecords | undefined;

  function enqueueIfOpen(node: Node): void {
    if (!listening || (records?.isSettled(node) === true && !records.isDoubtful(node))) return;
    records?.seen(node);
    if (podCidrTexts(node).length > 0 || !starved.waits(keyOf(node))) queue.add(keyOf(node));
  }

  const registration = nodes.handle({
    added: enqueueIfOpen,
    updated: (_before, node) => enqueueIfOpen(node),
    deleted(last) {
      if (listening) queue.add(keyOf(last));
    },
  });

  function enqueueWaiting(): void {
    for (const node of nodes.store.list()) if (podCidrTexts(node).length === 0) queue.add(keyOf(node));
  }

  /** Retries as many nodes without room as blocks have become free. */
  function wake(blocks: number): void {
    for (const name of starved.wake(blocks)) queue.add(name);
  }

  function begin(listed: readonly Node[]): SyncParts {
    const metrics = ipamMetrics(context.metrics);
    const { clusters, services } = settings;
    const allocations = new Allocations({ clusters, services, metrics, masks: allocator.masks, freed: wake });
    const events = ipamEvents(context);
    records = new NodeRecords({ settings, allocations, events, log });
    for (const node of listed) {
      if (podCidrTexts(node).length > 0) records.seen(node);
      const hasSome = (allocations.claimOf(keyOf(node))?.held.length ?? 0) > 0;
      if (hasSome && nodes.store.get(keyOf(node)) !== undefined && allocator.takeUp(node)) queue.add(keyOf(node));
    }
    for (const node of nodes.store.list()) enqueueIfOpen(node);
    const audit = new OrphanAudit({ ...context, nodes: nodes.store, allocations, records });
    const failures = (name: string): number => queue.requeues(name);
    return {
      ...context,
      nodes: nodes.store,
      allocator,
      allocations,
      records,
      audit,
      suspension,
      events,
      starved,
      failures,
    };
  }

  return {
    async run(signal) {
      try {
        listening = true;
        const listed = await listOnceAlone(context, suspension, signal);
        if (listed === undefined) return;
        await processNodes({ queue, clock, failing }, begin(listed), signal);
      } finally {
        registration.remove();
        queue.shutDown();
      }
    },
    warnings: () => [...suspension.warnings, ...failing.warnings],
  };
}

/** Works the queue, and reviews the signs of other allocators, until the signal aborts. */
function processNodes(
  { queue, clock, failing }: { readonly queue: WorkQueue; readonly clock: Clock; readonly failing: FailingObjects },
  parts: SyncParts,
  signal: AbortSignal,
): Promise<void> {
  const { log, suspension } = parts;
  return runTogether(signal, [
    (stop) =>
      queue.process({
        workers,
        signal: stop,
        async sync(name) {
          await syncNode(parts, name, stop);
          failing.ended(name);
        },
        failed(name, error) {
          if (stop.aborted) return;
          log.error("CIDR assignment for node failed", { node: name, error });
          failing.failed(name, error);
        },
      }),
    (stop) => repeat({ clock, signal: stop, periodMs: reviewMs }, async () => suspension.review()),
  ]);
}

/**
 * All nodes as they are now, once they can be listed without a sign of another allocator; allocation is suspended
 * until then. Undefined when the signal aborts first.
 */
async function listOnceAlone(
  context: ControllerContext,
  suspension: Suspension,
  signal: AbortSignal,
): Promise<readonly Node[] | undefined> {
  let pauseMs = pausesMs.first;
  while (!signal.aborted) {
    let step = "list all nodes";
    try {
      const nodes = await listNodes(context.client, signal);
      step = "read the lease of kube-controller-manager";
      const other = await findControllerManager(context, nodes, signal);
      if (other === undefined) {
        suspension.resume();
        return nodes;
      }
      suspension.suspend(other.reason);
      ipamEvents(context).otherAllocator(other.node, `Pod CIDR allocation is suspended: ${other.reason}`);
      await context.clock.sleep(reviewMs, signal);
    } catch (error) {
      if (signal.aborted) return undefined;
      suspension.suspend(`Failed to ${step}: ${messageOf(error)}`);
      await context.clock.sleep(pauseMs, signal);
      pauseMs = Math.min(pauseMs * 2, pausesMs.longest);
    }
  }
  return undefined;
}
