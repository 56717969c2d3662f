import type { ArmFault, ArmReply } from "./faults.ts";
import type { SimulatedRequest } from "./request.ts";
import type { SubscriptionState } from "./subscription-state.ts";

/** A write that has been checked and only has to be carried out. */
export interface AcceptedWrite {
  /** The id of the resource that is written. */
  readonly id: string;
  readonly status: number;
  /** Shows the resource as it is while a long-running operation is under way; returns the body of the first reply. */
  begin(): unknown;
  /** Carries the write out; returns the body of the final reply. */
  finish(): unknown;
  /** Leaves the resource as a failed operation does; one that was superseded leaves nothing. */
  fail(fault: ArmFault): void;
}

/** Answers a write: at once, or with the place to poll where operations take long. */
export function answerWrite(request: SimulatedRequest, state: SubscriptionState, write: AcceptedWrite): ArmReply {
  const { polls, style } = state.operations.settings;
  const fault = request.operationFault;
  if (polls === 0 && fault === undefined) {
    state.operations.supersede(write.id);
    return { status: write.status, body: write.finish() };
  }
  const id = state.operations.start(write.id, {
    fault,
    finish: () => write.finish(),
    fail: (reason) => write.fail(reason),
  });
  const body = write.begin();
  const headers = {
    ...(style === "location" ? {} : { "azure-asyncoperation": request.operationUrl("operations", id) }),
    ...(style === "azure-asyncoperation" && body !== undefined
      ? {}
      : { location: request.operationUrl("operationResults", id) }),
  };
  return { status: body === undefined ? 202 : write.status, body, headers };
}
