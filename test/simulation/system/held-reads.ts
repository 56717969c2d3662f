import type { Exchange } from "./runtime/network.ts";

interface HeldRead {
  /** A part of the path that is read: of a resource, or of a list. */
  readonly path: string;
  readonly holdMs: number;
  /** Happens right after the server has answered. */
  readonly change: () => void;
}

/** Changes while the reply to a read is on its way: it arrives with the state from before. */
export class HeldReads {
  #next: readonly HeldRead[] = [];
  /** Called after each change. */
  changed: () => void = () => undefined;

  /** Holds the reply to the next read of a path. */
  hold(read: HeldRead): void {
    this.#next = [...this.#next, read];
  }

  clear(): void {
    this.#next = [];
  }

  /** How long the reply of a read that the server has answered is held. */
  answered({ method, path }: Exchange): number {
    if (method !== "GET") return 0;
    const held = this.#next.find((each) => path.includes(each.path));
    if (held === undefined) return 0;
    this.#next = this.#next.filter((each) => each !== held);
    held.change();
    this.changed();
    return held.holdMs;
  }
}
