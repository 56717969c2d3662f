import type { Clock, InstanceRead } from "cloud-controller-host/sdk";

/** Time until the instance of a node that is not ready is first looked up past the cloud's caches. */
const firstLookMs = 20_000;
/** Such looks per pass: an outage of all nodes must not use up the cloud's requests. */
const maxLooks = 16;

interface Unready {
  readonly sinceMs: number;
  /** The next such look is due when the node has not been ready for so long. */
  lookAfterMs: number;
}

/** Nodes that are not ready, by UID, from when they were first seen so, in monotonic time. */
export class UnreadyNodes {
  readonly #clock: Clock;
  readonly #nodes = new Map<string, Unready>();
  /** Looks of this pass. */
  #looks = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  beginPass(): void {
    this.#looks = 0;
  }

  /** For how long the node has been seen so, in milliseconds. */
  lastingMs(uid: string): number {
    return this.#clock.monotonic() - this.#of(uid).sinceMs;
  }

  /**
   * The read that looks up its instance now: `fresh` after 20 s, 40 s, 80 s and so on. A list that was read while the instance
   * existed would keep its node until the cache expires. Nodes that stay so for days cost few reads. Of many at once,
   * each pass looks up 16.
   */
  nextRead(uid: string): Pick<InstanceRead, "read"> {
    const node = this.#of(uid);
    const lastingMs = this.lastingMs(uid);
    if (lastingMs < node.lookAfterMs || this.#looks >= maxLooks) return {};
    this.#looks += 1;
    while (node.lookAfterMs <= lastingMs) node.lookAfterMs *= 2;
    return { read: "fresh" };
  }

  /** Forgets the others: they are ready, or gone. */
  keepOnly(uids: ReadonlySet<string>): void {
    for (const uid of this.#nodes.keys()) if (!uids.has(uid)) this.#nodes.delete(uid);
  }

  #of(uid: string): Unready {
    return this.#nodes.getOrInsertComputed(uid, () => ({
      sinceMs: this.#clock.monotonic(),
      lookAfterMs: firstLookMs,
    }));
  }
}
