import { type Clock, keyOf, type Node } from "cloud-controller-host/sdk";

/** Must not throw. */
type Check = (node: Node) => Promise<void>;

interface Waiting {
  node: Node;
  check: Check;
  readonly done: PromiseWithResolvers<void>;
}

/**
 * Runs a check for many nodes at a time, so that a cloud can answer many of them with one read, and waits for them no
 * longer than `timeoutMs`. A slower check continues in the background: it delays no other node, and no second check of
 * its own node starts before it has ended. Checks that wait for a free slot keep their place, so every node gets one.
 */
export class ConcurrentChecks {
  readonly #options: { readonly clock: Clock; readonly concurrency: number; readonly timeoutMs: number };
  readonly #waiting = new Map<string, Waiting>();
  readonly #inFlight = new Map<string, Promise<void>>();

  constructor(options: { readonly clock: Clock; readonly concurrency: number; readonly timeoutMs: number }) {
    this.#options = options;
  }

  /** No check starts once the signal has aborted. */
  async run(nodes: readonly Node[], signal: AbortSignal, check: Check): Promise<void> {
    const all = nodes.filter((node) => !this.#inFlight.has(keyOf(node))).map((node) => this.#enqueue(node, check));
    this.#startNext(signal);
    const enough = new AbortController();
    const end = (): void => enough.abort();
    signal.addEventListener("abort", end);
    void Promise.all(all).then(end);
    if (!signal.aborted) await this.#options.clock.sleep(this.#options.timeoutMs, enough.signal);
    signal.removeEventListener("abort", end);
  }

  /** Resolves when every check that was started has ended. */
  async drain(): Promise<void> {
    while (this.#inFlight.size > 0) await Promise.all(this.#inFlight.values());
  }

  /** A check of the same node that still waits is replaced: its purpose may be out of date. */
  #enqueue(node: Node, check: Check): Promise<void> {
    const name = keyOf(node);
    const known = this.#waiting.get(name);
    if (known !== undefined) {
      known.node = node;
      known.check = check;
      return known.done.promise;
    }
    const done = Promise.withResolvers<void>();
    this.#waiting.set(name, { node, check, done });
    return done.promise;
  }

  #startNext(signal: AbortSignal): void {
    for (const [name, { node, check, done }] of this.#waiting) {
      if (signal.aborted || this.#inFlight.size >= this.#options.concurrency) return;
      this.#waiting.delete(name);
      const running = check(node).finally(() => {
        this.#inFlight.delete(name);
        done.resolve();
        this.#startNext(signal);
      });
      this.#inFlight.set(name, running);
    }
  }
}
