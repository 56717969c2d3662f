import type { Clock } from "cloud-controller-host/sdk";

import { isUnprovisioned } from "../../arm/errors.ts";
import { withOperationLimit } from "../../arm/writes/operation-limit.ts";
import { isLost, isRejected } from "../../arm/writes/write-errors.ts";
import type { VmReads } from "../../instances/vm-types.ts";
import type { ServiceKey } from "../model/model.ts";
import type { EditOptions, PoolEdit } from "./pool-edits.ts";

export interface MemberOptions extends EditOptions, VmReads {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly withInstanceView: boolean;
  readonly stuckMembers?: StuckMembers;
  /** Receives the id of an instance or interface whose operation is not waited for any more. */
  readonly abandoned?: (id: string) => void;
  /** Receives the id of an instance that is left out: stopped, in an unknown state, not to be repaired, or not in a list. */
  readonly skipped?: (id: string) => void;
}

/** Receives interfaces and instances that may be unable to join or leave their pools. */
export interface StuckMembers {
  /** It was not written, or not with success, in whatever state it was. */
  found: (member: StuckMember) => void;
  written: (id: string) => void;
}

export interface StuckMember {
  readonly id: string;
  readonly kind: "network interface" | "instance";
  readonly vmId: string | undefined;
  readonly state: string | undefined;
  readonly change: "join" | "leave";
  /** Services that use the pools. */
  readonly services: readonly ServiceKey[];
}

/** Writes a member of pools within the limit of an operation, and reports one that cannot be written. Rejects with the error. */
export async function writeMember(
  member: StuckMember,
  { signal, stuckMembers, abandoned }: MemberOptions,
  write: (request: { readonly abortSignal: AbortSignal; readonly onResponse: () => void }) => Promise<unknown>,
): Promise<void> {
  try {
    await withOperationLimit(`update of ${member.id}`, signal, (abortSignal, onResponse) =>
      write({ abortSignal, onResponse }),
    );
    stuckMembers?.written(member.id);
  } catch (error) {
    if (isLost(error)) abandoned?.(member.id);
    // Throttling, an outage or the end of the process do not show that one in Failed is stuck.
    if (!isUnprovisioned({ provisioningState: member.state ?? "" }) || isRejected(error)) stuckMembers?.found(member);
    throw error;
  }
}

/** A write that joins some pools and leaves others counts as a join. */
export const changeOf = (edits: readonly PoolEdit[]): "join" | "leave" =>
  edits.some(({ change }) => change === "join") ? "join" : "leave";
