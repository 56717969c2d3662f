import { forEachConcurrently, type Informer, keyOf, type Node } from "cloud-controller-host/sdk";

import { needsCheck } from "./node-check.ts";

/**
 * The nodes that need a check, few of thousands, maintained from watch events: a search among 15,000 nodes would block the
 * event loop for 13 ms.
 */
export class NodesToCheck {
  readonly #nodes: Informer<Node>;
  readonly #names = new Set<string>();
  readonly #registration: { remove(): void };
  #lookedAtAll = false;

  constructor(nodes: Informer<Node>) {
    this.#nodes = nodes;
    this.#registration = nodes.handle({
      added: (node) => this.#note(node),
      updated: (_before, node) => this.#note(node),
    });
  }

  /**
   * Those that need a check as a pass begins. The first pass looks at every node, as most have not been delivered yet, and
   * leaves turns of the event loop to others.
   */
  async ofPass(signal: AbortSignal): Promise<readonly Node[]> {
    const unseen = this.#lookedAtAll ? [] : this.#nodes.store.list();
    this.#lookedAtAll = true;
    await forEachConcurrently({ workers: 1, signal }, unseen, async (node) => this.#note(node));
    return this.list();
  }

  /** Those that need a check now, as the store has them. The others are forgotten: a later change is delivered. */
  list(): readonly Node[] {
    return [...this.#names].flatMap((name) => {
      const node = this.#nodes.store.get(name);
      if (node !== undefined && needsCheck(node)) return [node];
      this.#names.delete(name);
      return [];
    });
  }

  release(): void {
    this.#registration.remove();
  }

  #note(node: Node): void {
    if (needsCheck(node)) this.#names.add(keyOf(node));
  }
}
