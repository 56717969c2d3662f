import { randomOf } from "../timeline.ts";
import type { Target } from "./weather.ts";

/** How many of the writes that a client cancels on their way are carried out all the same, and how much later. */
export interface LateWrites {
  readonly share: number;
  /** Default: half of them come at once. */
  readonly minMs?: number;
  readonly maxMs: number;
}

/** Late writes of one history in four, from numbers of their own: the other histories stay as they are. */
export function lateWritesOf(seed: number): { readonly lateWrites?: LateWrites } {
  const random = randomOf(seed ^ 0x01a7_e3d5);
  return random() < 0.25
    ? { lateWrites: { share: 0.3 + 0.7 * random(), maxMs: random() < 0.5 ? 3_000 : 150_000 } }
    : {};
}

/** Requests whose connections are closed on their way. A server may have all of one by then, and carries it out. */
export class CanceledRequests {
  readonly #random: () => number;
  readonly #late: LateWrites | undefined;

  constructor(seed: number, late: LateWrites | undefined) {
    this.#random = randomOf(seed ^ 0x0ca9_ce1d);
    this.#late = late;
  }

  /** How much later than others a write is carried out, in milliseconds; undefined: never. */
  lateBy(target: Target): number | undefined {
    if (this.#late === undefined || this.#random() >= this.#late.share) return undefined;
    const { minMs, maxMs } = this.#late;
    const isAtOnce = minMs === undefined && this.#random() < 0.5;
    const ms = (minMs ?? 0) + (maxMs - (minMs ?? 0)) * this.#random() ** 2;
    // The API server has no queue in front of it.
    return isAtOnce || target === "kube" ? 0 : ms;
  }
}
