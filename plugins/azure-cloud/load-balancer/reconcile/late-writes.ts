import { sameName, startsWithName } from "../../arm/resource-id.ts";
import type { Observed, ServiceKey } from "../model/model.ts";
import type { Write } from "../model/plan-model.ts";
import type { WriteOutcome } from "./apply.ts";
import { subjectsOf } from "./held-resources.ts";

/** A write that is still in flight after its batch has gone on without it. */
export interface LateWrite {
  readonly write: Write;
  /** Never rejects. */
  readonly outcome: Promise<WriteOutcome>;
  /** Ids of the resources that ARM accepts no other write of until then. */
  readonly holds: readonly string[];
}

/** The outcome of a Service that has left its batch: it is to be planned again when the write is back. */
export class LateWriteError extends Error {
  readonly late: LateWrite;
  /** False for a Service that only needs the same resource. */
  readonly isOwn: boolean;

  constructor(late: LateWrite, { isOwn }: { readonly isOwn: boolean }) {
    super(`${late.write.id} is still being written`);
    this.late = late;
    this.isOwn = isOwn;
  }
}

/**
 * Writes in flight that no batch waits for. While one is here, its Service is in no batch, and no batch writes its
 * resource or a load balancer that it holds, so that every resource keeps one writer. Batches still run one after
 * another: only they add writes.
 */
export class LateWrites {
  readonly #writes = new Set<LateWrite>();

  /** A copy: what was in flight before an observation may be missing from it. */
  current(): readonly LateWrite[] {
    return [...this.#writes];
  }

  add(late: LateWrite): void {
    this.#writes.add(late);
    void late.outcome.then(() => this.#writes.delete(late));
  }
}

export const lateFor = (late: readonly LateWrite[], key: ServiceKey): LateWrite | undefined =>
  late.find(({ write }) => write.services.includes(key));

/** The late write that holds one of the resources that a write is about, or the load balancer that one is a part of. */
export function lateAt(late: readonly LateWrite[], write: Write, observed: Observed): LateWrite | undefined {
  if (late.length === 0) return undefined;
  const subjects = subjectsOf(write, observed);
  return late.find(({ holds }) =>
    holds.some((held) => subjects.some((id) => sameName(held, id) || startsWithName(id, `${held}/`))),
  );
}
