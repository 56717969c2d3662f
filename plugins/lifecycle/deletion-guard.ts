import {
  type ControllerContext,
  controllerNames,
  keyOf,
  type KnownWarning,
  type Node,
  taints,
  taintsOf,
} from "cloud-controller-host/sdk";

import type { LifecycleOptions } from "./options.ts";

type Limits = Pick<LifecycleOptions, "maxMissingPercent" | "maxMissingNodes" | "deletionWindowSeconds">;

/** True when so many nodes are missing that a wrong answer of the cloud is more likely than the loss of the instances. */
export function tooManyMissing(
  missing: number,
  all: number,
  limits: Pick<Limits, "maxMissingPercent" | "maxMissingNodes">,
): boolean {
  return missing > limits.maxMissingNodes && missing * 100 > all * limits.maxMissingPercent;
}

/** Result of one pass over the nodes. */
export interface Survey {
  /** Nodes whose instance the cloud reports as missing, and that are old enough to be deleted. */
  readonly missing: readonly Node[];
  /** UIDs of nodes that are not ready and about which the cloud has not answered yet: each of them may be missing too. */
  readonly unanswered: readonly string[];
  readonly all: readonly Node[];
}

/** Nodes that get an event of their own when deletions are held. */
const maxEvents = 10;

/**
 * Decides which missing nodes may be deleted. Nodes deleted within the window count as missing, so that a cloud that
 * loses a few nodes at a time meets the same limits as one that loses them at once. While deletions are held nothing is
 * forgotten: they resume when instances are back, when nodes are deleted by hand, or with higher limits. A node that
 * the cluster autoscaler has marked for deletion is expected to be missing and is not counted.
 */
export class DeletionGuard {
  readonly #context: Pick<ControllerContext, "clock" | "events" | "log">;
  readonly #limits: Limits;
  readonly #heldNodes: { set(value: number): void };
  /** When the node with that UID was deleted; infinite while its deletion is in flight. */
  readonly #deletedAt = new Map<string, number>();
  #held = 0;
  #message = "";
  #since = "";

  constructor(context: Pick<ControllerContext, "clock" | "events" | "log" | "metrics">, limits: Limits) {
    this.#context = context;
    this.#limits = limits;
    this.#heldNodes = context.metrics.gauge({
      name: "cloud_node_lifecycle_controller_held_deletions",
      help: "Number of nodes that are missing from the cloud and are not deleted because too many are missing.",
    });
    this.#heldNodes.set(0);
  }

  release({ missing, unanswered, all }: Survey): readonly Node[] {
    if (this.#held === 0) this.#forgetOld();
    if (this.#held === 0 && missing.length === 0) return [];
    const open = missing.filter((node) => !this.#deletedAt.has(uidOf(node)));
    const expected = open.filter(isScaleDown);
    const unexpected = open.filter((node) => !isScaleDown(node));
    const recent = [...this.#deletedAt.keys()];
    const population = new Set([...all.map(uidOf), ...recent]).size;
    const lost = unexpected.length + recent.length;
    if (unexpected.length > 0 && tooManyMissing(lost, population, this.#limits)) {
      this.#hold(unexpected, lost, population);
      return expected;
    }
    this.#resume(open.length, population);
    const possible = lost + unanswered.filter((uid) => !this.#deletedAt.has(uid)).length;
    return tooManyMissing(possible, population, this.#limits) ? expected : open;
  }

  /** Runs the deletion of a released node, and remembers it when it resolves to true. */
  async track(node: Node, deletion: () => Promise<boolean>): Promise<void> {
    const uid = uidOf(node);
    const counted = !isScaleDown(node);
    if (counted) this.#deletedAt.set(uid, Number.POSITIVE_INFINITY);
    const deleted = await deletion();
    if (deleted && counted) this.#deletedAt.set(uid, this.#context.clock.monotonic());
    else this.#deletedAt.delete(uid);
  }

  /** Why deletions are held and since when, for `/statusz`. */
  get warnings(): readonly KnownWarning[] {
    if (this.#held === 0) return [];
    const [since, text] = [this.#since, `deletions of nodes have been held since ${this.#since}: ${this.#message}`];
    return [{ kind: "NodeDeletionsHeld", text, since }];
  }

  #forgetOld(): void {
    const oldest = this.#context.clock.monotonic() - this.#limits.deletionWindowSeconds * 1000;
    for (const [uid, at] of this.#deletedAt) if (at < oldest) this.#deletedAt.delete(uid);
  }

  #hold(nodes: readonly Node[], lost: number, population: number): void {
    const { log, events } = this.#context;
    const begins = this.#held === 0;
    const changed = this.#held !== nodes.length;
    this.#held = nodes.length;
    this.#message = this.#explain(lost, population);
    this.#heldNodes.set(this.#held);
    if (changed) log.warn(this.#message, { missing: nodes.length, nodes: population });
    if (!begins) return;
    this.#since = new Date(this.#context.clock.now()).toISOString();
    for (const node of nodes.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1)).slice(0, maxEvents))
      events.event(node, "Warning", "DeletionHeld", this.#message);
  }

  #resume(missing: number, population: number): void {
    if (this.#held === 0) return;
    this.#held = 0;
    this.#heldNodes.set(0);
    this.#context.log.info("Deletions of nodes are no longer held", { missing, nodes: population });
  }

  #explain(lost: number, population: number): string {
    const { maxMissingNodes, maxMissingPercent, deletionWindowSeconds } = this.#limits;
    const flag = `--${controllerNames.cloudNodeLifecycle}-max-missing`;
    const deleted = lost - this.#held;
    const counted = deleted === 0 ? "" : `, ${deleted} of them deleted within ${deletionWindowSeconds} s`;
    return (
      `${lost} of ${population} nodes are missing from the cloud${counted}: no more are deleted ` +
      `(the limit is ${maxMissingNodes} nodes or ${maxMissingPercent} %); ` +
      `if the instances are really gone, delete the nodes by hand or raise ${flag}-nodes or ${flag}-percent`
    );
  }
}

export const uidOf = (node: Node): string => node.metadata?.uid ?? "";

const isScaleDown = (node: Node): boolean => taintsOf(node).some(({ key }) => key === taints.toBeDeletedByAutoscaler);
