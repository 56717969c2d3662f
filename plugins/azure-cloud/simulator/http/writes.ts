import type { ArmFault, ArmReply } from "../faults.ts";
import type { SubscriptionState } from "../state/subscription-state.ts";
import type { SimulatedRequest } from "./request.ts";

/** A write that has been validated and is ready to be carried out. */
export interface AcceptedWrite {
  /** The id of the resource that is written. */
  readonly id: string;
  readonly status: number;
  /** Marks the resource as being updated; returns the body of the first reply. */
  begin(): unknown;
  /** Carries the write out; returns the body of the final reply. */
  finish(): unknown;
  /** Marks the resource as failed; a superseded operation leaves no mark. */
  fail(fault: ArmFault): void;
}

/** Replies to a write: with the result, or with the URL to poll for long-running operations. */
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
