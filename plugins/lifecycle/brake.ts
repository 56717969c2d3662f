import { CodedError, type ControllerContext, controllerNames, keyOf, type Node } from "cloud-controller-host/sdk";

import type { LifecycleOptions } from "./options.ts";

type Limits = Pick<LifecycleOptions, "maxMissingPercent" | "maxMissingNodes">;

/** Whether so many nodes are missing at once that the cloud's answer is more likely wrong than the machines gone. */
export function tooManyMissing(missing: number, all: number, limits: Limits): boolean {
  return missing > limits.maxMissingNodes && missing * 100 > all * limits.maxMissingPercent;
}

/** Nodes that are told of a held deletion by an event of their own. */
const eventsAtOnce = 10;

/** Holds all deletions while too many nodes are missing, and makes it seen: event, log, metric, health check. */
export class Brake {
  readonly #context: Pick<ControllerContext, "events" | "log">;
  readonly #limits: Limits;
  readonly #heldNodes: { set(value: number): void };
  #held = 0;
  #all = 0;

  constructor(context: Pick<ControllerContext, "events" | "log" | "metrics">, limits: Limits) {
    this.#context = context;
    this.#limits = limits;
    this.#heldNodes = context.metrics.gauge({
      name: "cloud_node_lifecycle_controller_held_deletions",
      help: "Nodes that are missing from the cloud and are not deleted because too many are missing at once.",
    });
    this.#heldNodes.set(0);
  }

  /** The nodes of `missing` that may be deleted: all of them, or none. */
  release(missing: readonly Node[], all: number): readonly Node[] {
    const holds = tooManyMissing(missing.length, all, this.#limits);
    const held = holds ? missing.length : 0;
    if (held !== this.#held) this.#tell(held, missing, all);
    this.#held = held;
    this.#all = all;
    this.#heldNodes.set(held);
    return holds ? [] : missing;
  }

  /** Throws while deletions are held. */
  check(): void {
    if (this.#held > 0) throw new CodedError("DeletionsHeld", this.#message(this.#held, this.#all));
  }

  #tell(held: number, missing: readonly Node[], all: number): void {
    const { log, events } = this.#context;
    if (held === 0) {
      log.info("deletions of nodes are no longer held back", { missing: missing.length, nodes: all });
      return;
    }
    const message = this.#message(held, all);
    log.warn(message, { missing: held, nodes: all });
    if (this.#held > 0) return;
    for (const node of missing.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1)).slice(0, eventsAtOnce))
      events.event(node, "Warning", "DeletionHeld", message);
  }

  #message(held: number, all: number): string {
    const { maxMissingNodes, maxMissingPercent } = this.#limits;
    const flag = `--${controllerNames.cloudNodeLifecycle}-max-missing`;
    return (
      `${held} of ${all} nodes are missing from the cloud at once, so none of them is deleted ` +
      `(the limit is ${maxMissingNodes} nodes or ${maxMissingPercent} %); ` +
      `if they are really gone, delete them by hand or raise ${flag}-nodes or ${flag}-percent`
    );
  }
}
