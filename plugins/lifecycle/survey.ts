import { type Clock, keyOf, type Node } from "cloud-controller-host/sdk";

/** Must not throw. */
type Question = (node: Node) => Promise<void>;

interface Waiting {
  node: Node;
  question: Question;
  readonly answered: PromiseWithResolvers<void>;
}

/**
 * Asks about many nodes at once, so that a cloud can answer many questions with one read, and waits for the answers no
 * longer than `patienceMs`. A question that takes longer goes on by itself: it delays no other node, and its own node
 * is not asked about again before it has ended. Those that wait for their turn keep it, so that every node gets one.
 */
export class Survey {
  readonly #options: { readonly clock: Clock; readonly concurrency: number; readonly patienceMs: number };
  readonly #waiting = new Map<string, Waiting>();
  readonly #underWay = new Map<string, Promise<void>>();

  constructor(options: { readonly clock: Clock; readonly concurrency: number; readonly patienceMs: number }) {
    this.#options = options;
  }

  /** No question is begun once the signal has aborted. */
  async ask(nodes: readonly Node[], signal: AbortSignal, question: Question): Promise<void> {
    const answers = nodes.filter((node) => !this.#underWay.has(keyOf(node))).map((node) => this.#line(node, question));
    this.#begin(signal);
    const enough = new AbortController();
    const end = (): void => enough.abort();
    signal.addEventListener("abort", end, { once: true });
    void Promise.all(answers).then(end);
    if (!signal.aborted) await this.#options.clock.sleep(this.#options.patienceMs, enough.signal);
    signal.removeEventListener("abort", end);
  }

  /** Resolves when every question that was begun has ended. */
  async end(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay.values());
  }

  /** Puts the question in line; one about the same node that waits there already gives it its place. */
  #line(node: Node, question: Question): Promise<void> {
    const name = keyOf(node);
    const known = this.#waiting.get(name);
    if (known !== undefined) {
      known.node = node;
      known.question = question;
      return known.answered.promise;
    }
    const answered = Promise.withResolvers<void>();
    this.#waiting.set(name, { node, question, answered });
    return answered.promise;
  }

  #begin(signal: AbortSignal): void {
    for (const [name, { node, question, answered }] of this.#waiting) {
      if (signal.aborted || this.#underWay.size >= this.#options.concurrency) return;
      this.#waiting.delete(name);
      const asking = question(node).finally(() => {
        this.#underWay.delete(name);
        answered.resolve();
        this.#begin(signal);
      });
      this.#underWay.set(name, asking);
    }
  }
}
