import { type Clock, forEachConcurrently, keyOf, type Node } from "cloud-controller-host/sdk";

/**
 * Asks about many nodes at once, so that a cloud can answer many questions with one read, and waits for the answers no
 * longer than `patienceMs`. A question that takes longer goes on by itself: it delays no other node, and its own node
 * is not asked about again before it has ended.
 */
export class Survey {
  readonly #options: { readonly clock: Clock; readonly concurrency: number; readonly patienceMs: number };
  readonly #underWay = new Set<string>();
  readonly #rounds = new Set<Promise<void>>();

  constructor(options: { readonly clock: Clock; readonly concurrency: number; readonly patienceMs: number }) {
    this.#options = options;
  }

  /** `question` must not throw. */
  async ask(nodes: readonly Node[], signal: AbortSignal, question: (node: Node) => Promise<void>): Promise<void> {
    const { clock, concurrency, patienceMs } = this.#options;
    const workers = Math.max(1, concurrency - this.#underWay.size);
    const round = forEachConcurrently({ workers, signal }, nodes, (node) => this.#askOne(node, question));
    const answered = new AbortController();
    const finished = round.finally(() => {
      this.#rounds.delete(finished);
      answered.abort();
    });
    this.#rounds.add(finished);
    await clock.sleep(patienceMs, AbortSignal.any([signal, answered.signal]));
  }

  /** Resolves when every question has ended. */
  async end(): Promise<void> {
    await Promise.all(this.#rounds);
  }

  async #askOne(node: Node, question: (node: Node) => Promise<void>): Promise<void> {
    const name = keyOf(node);
    if (this.#underWay.has(name)) return;
    this.#underWay.add(name);
    try {
      await question(node);
    } finally {
      this.#underWay.delete(name);
    }
  }
}
