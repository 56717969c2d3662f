import { createHash } from "node:crypto";

import { type CloudContext, messageOf } from "cloud-controller-host/sdk";

import { abandonable } from "../arm/transport/signals.ts";

/** Between two reads of the same confirmation. */
const readMs = 1_000;
/** For one read. A plan waits for it. */
const limitMs = 10_000;

/** Names one plan: the resource and exactly what it loses. */
export const hashOf = (id: string, keys: Iterable<string>): string =>
  createHash("sha256")
    .update(JSON.stringify([id.toLowerCase(), [...keys].toSorted()]))
    .digest("hex")
    .slice(0, 12);

/** The plans that a person has confirmed. */
export class ConfirmedPlans {
  readonly #context: Pick<CloudContext, "clock" | "confirmations" | "log">;
  readonly #reads = new Map<string, { readonly atMs: number; readonly isConfirmed: boolean }>();

  constructor(context: Pick<CloudContext, "clock" | "confirmations" | "log">) {
    this.#context = context;
  }

  /** False also while it cannot be read. */
  async isConfirmed(hash: string): Promise<boolean> {
    const { clock, confirmations, log } = this.#context;
    if (confirmations === undefined) return false;
    const known = this.#reads.get(hash);
    if (known !== undefined && clock.monotonic() - known.atMs < readMs) return known.isConfirmed;
    const read = (): Promise<boolean> => confirmations.isConfirmed(hash);
    const isConfirmed = await abandonable(read, AbortSignal.timeout(limitMs)).catch((error: unknown) => {
      log.warn("Failed to read confirmations of removals; treating them as unconfirmed", { error: messageOf(error) });
      return false;
    });
    for (const [old, { atMs }] of this.#reads) if (clock.monotonic() - atMs >= readMs) this.#reads.delete(old);
    this.#reads.set(hash, { atMs: clock.monotonic(), isConfirmed });
    return isConfirmed;
  }
}
