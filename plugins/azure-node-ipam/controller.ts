import {
  type Cloud,
  type Controller,
  type ControllerContext,
  keyOf,
  kinds,
  messageOf,
  type Node,
} from "cloud-controller-host/sdk";

import { Occupancy } from "./allocation/allocations.ts";
import { chooseAllocator } from "./allocation/allocators.ts";
import { Audit, listNodes } from "./allocation/audit.ts";
import { signOfControllerManager } from "./allocation/other-allocator.ts";
import { Standing } from "./allocation/suspension.ts";
import { syncNode, type SyncParts } from "./allocation/sync.ts";
import { ipamEvents } from "./events.ts";
import { ipamMetrics } from "./metrics.ts";
import { podCidrTexts } from "./nodes/pod-cidrs.ts";
import { NodeRecords } from "./nodes/records.ts";
import type { IpamSettings } from "./settings.ts";

const workers = 30;
/** Pauses between tries to read what is occupied. */
const pausesMs = { first: 1_000, longest: 30_000 };
/** How often to look whether another allocator has gone. */
const asideMs = 60_000;

/** Registers for nodes. `run` counts what is occupied, and only then gives CIDRs to nodes, until its signal aborts. */
export function ipamController(context: ControllerContext, cloud: Cloud, settings: IpamSettings): Controller {
  const { log } = context;
  const allocator = chooseAllocator(context, settings, cloud);
  const nodes = context.informers.of(kinds.Node);
  const queue = context.workqueue("node-ipam");
  const standing = new Standing(log);
  const starved = new Set<string>();
  /** From the moment on when the count begins; a change that falls into the count is looked at after it. */
  let listening = false;
  /** Undefined until the count is done. */
  let records: NodeRecords | undefined;

  function look(node: Node): void {
    if (!listening || (records?.isSettled(node) === true && !records.isDoubtful(node))) return;
    records?.seen(node);
    queue.add(keyOf(node));
  }

  const registration = nodes.handle({
    added: look,
    updated: (_before, node) => look(node),
    deleted(last) {
      if (listening) queue.add(keyOf(last));
    },
  });

  /** Blocks have become free: as many nodes that found no room are tried again. */
  function wake(blocks: number): void {
    for (const name of [...starved].slice(0, blocks)) {
      starved.delete(name);
      queue.add(name);
    }
  }

  function begin(listed: readonly Node[]): SyncParts {
    const metrics = ipamMetrics(context.metrics);
    const { clusters, services } = settings;
    const occupancy = new Occupancy({ clusters, services, metrics, masks: allocator.masks, freed: wake });
    const events = ipamEvents(context);
    records = new NodeRecords({ settings, occupancy, events, log });
    for (const node of listed) {
      if (podCidrTexts(node).length > 0) records.seen(node);
      const hasSome = (occupancy.claimOf(keyOf(node))?.held.length ?? 0) > 0;
      if (hasSome && nodes.store.get(keyOf(node)) !== undefined && allocator.takeUp(node)) queue.add(keyOf(node));
    }
    for (const node of nodes.store.list()) look(node);
    const audit = new Audit({ ...context, nodes: nodes.store, occupancy, records });
    const failures = (name: string): number => queue.requeues(name);
    return {
      ...context,
      nodes: nodes.store,
      allocator,
      occupancy,
      records,
      audit,
      standing,
      events,
      starved,
      failures,
    };
  }

  return {
    async run(signal) {
      try {
        listening = true;
        const listed = await countNodes(context, standing, signal);
        if (listed === undefined) return;
        const parts = begin(listed);
        await queue.process({
          workers,
          signal,
          sync: (name) => syncNode(parts, name, signal),
          failed(name, error) {
            if (!signal.aborted)
              log.error("a node has not been given its pod CIDRs, and is tried again", { node: name, error });
          },
        });
      } finally {
        registration.remove();
        queue.shutDown();
      }
    },
    check: () => standing.check(),
  };
}

/**
 * All nodes as they are now, once they could be read and there is no sign of another allocator. Meanwhile the
 * controller is unhealthy. Undefined when the signal has aborted before.
 */
async function countNodes(
  context: ControllerContext,
  standing: Standing,
  signal: AbortSignal,
): Promise<readonly Node[] | undefined> {
  let pauseMs = pausesMs.first;
  while (!signal.aborted) {
    try {
      const nodes = await listNodes(context.client, signal);
      const sign = await signOfControllerManager(context, nodes, signal);
      if (sign === undefined) {
        standing.goOn();
        return nodes;
      }
      standing.stepAside(sign);
      await context.clock.sleep(asideMs, signal);
    } catch (error) {
      if (signal.aborted) return undefined;
      standing.stepAside(`what is occupied cannot be read: ${messageOf(error)}`);
      await context.clock.sleep(pauseMs, signal);
      pauseMs = Math.min(pauseMs * 2, pausesMs.longest);
    }
  }
  return undefined;
}
