import { type Clock, keyOf, type KindRef, kinds, type KubeObject } from "cloud-controller-host/sdk";

import { relevantNode, relevantService } from "../changes/relevant.ts";
import type { GenerationInformers } from "../kube/informers/share.ts";

/** Changes of Services and nodes that have not been compared yet, each with the time at which it was last seen. */
export class ObservedChanges {
  readonly #clock: Clock;
  readonly #onChange: () => void;
  /** By `Service default/web` or `Node vm-0`. */
  readonly #pending = new Map<string, number>();

  constructor(clock: Clock, onChange: () => void) {
    this.#clock = clock;
    this.#onChange = onChange;
  }

  /** Follows the watches. Objects that they show before they have synced are not changes. */
  follow(informers: GenerationInformers): void {
    this.#follow(informers, kinds.Service, relevantService);
    this.#follow(informers, kinds.Node, relevantNode);
  }

  #follow<T extends KubeObject>(
    informers: GenerationInformers,
    kind: KindRef<T>,
    relevant: (object: T) => unknown,
  ): void {
    const informer = informers.of(kind);
    const seen = (object: T): void => {
      this.#pending.set(`${kind.kind} ${keyOf(object)}`, this.#clock.monotonic());
      this.#onChange();
    };
    informer.handle({
      added: (object) => (informer.hasSynced() ? seen(object) : undefined),
      updated: (before, after) => (Bun.deepEquals(relevant(before), relevant(after)) ? undefined : seen(after)),
      deleted: seen,
    });
  }

  /** When the first of them settles, in milliseconds from now; undefined without one. */
  settlesIn(settleMs: number): number | undefined {
    if (this.#pending.size === 0) return undefined;
    return Math.max(0, Math.min(...this.#pending.values()) + settleMs - this.#clock.monotonic());
  }

  /** Changes last seen before that time. */
  before(time: number): ReadonlySet<string> {
    return new Set([...this.#pending].filter(([, seenAt]) => seenAt <= time).map(([subject]) => subject));
  }

  /** Changes seen since. */
  since(time: number): ReadonlySet<string> {
    return new Set([...this.#pending].filter(([, seenAt]) => seenAt > time).map(([subject]) => subject));
  }

  /** Ends the wait for changes that have been compared, unless they have changed again. */
  compared(subjects: Iterable<string>, time: number): void {
    for (const subject of subjects) if ((this.#pending.get(subject) ?? 0) <= time) this.#pending.delete(subject);
  }

  get size(): number {
    return this.#pending.size;
  }
}
