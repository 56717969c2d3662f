import { sameName, startsWithName } from "../../arm/resource-id.ts";
import type { Observed, ServiceKey } from "../model/model.ts";
import type { Write } from "../model/plan-model.ts";
import type { WriteOutcome } from "./apply.ts";

/** A write that is still in flight after its batch has gone on without it. */
export interface LateWrite {
  readonly write: Write;
  /** Never rejects. */
  readonly outcome: Promise<WriteOutcome>;
}

/** The outcome of a Service that has left its batch: it is to be planned again when the write is back. */
export class LateWriteError extends Error {
  readonly late: LateWrite;
  /** False for a Service that only needs the same resource. */
  readonly isOwn: boolean;
  /** Requests that changed something for the Service until then. */
  readonly writes: number;

  constructor(late: LateWrite, { isOwn, writes }: { readonly isOwn: boolean; readonly writes: number }) {
    super(`${late.write.id} is still being written`);
    this.late = late;
    this.isOwn = isOwn;
    this.writes = writes;
  }
}

/**
 * Writes in flight that no batch waits for. While one is here, its Service is in no batch, and no batch writes its
 * resource, so that every resource keeps one writer. Batches still run one after another: only they add writes.
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

/** The late write of a resource, or of the load balancer that it is a part of. */
export const lateAt = (late: readonly LateWrite[], id: string): LateWrite | undefined =>
  late.find(({ write }) => sameName(write.id, id) || startsWithName(id, `${write.id}/`));

/**
 * Whether a write may be left in flight: no Service but those that it is for, and those that need the same resource, then
 * depends on it. A public IP that a frontend has, a subnet and a private link service are waited for, because ARM accepts
 * no write of their load balancer meanwhile.
 */
export function mayBeLate(write: Write, { publicIPs, loadBalancers }: Observed): boolean {
  switch (write.kind) {
    case "put-public-ip":
      return (
        !publicIPs.some(({ id = "" }) => sameName(id, write.id)) &&
        !loadBalancers.some(({ frontendIPConfigurations = [] }) =>
          frontendIPConfigurations.some(({ publicIPAddress }) => sameName(publicIPAddress?.id ?? "", write.id)),
        )
      );
    case "put-load-balancer":
    case "delete-load-balancer":
    case "put-security-group":
    case "delete-public-ip":
      return true;
    default:
      return false;
  }
}
