import type { ArmFault, ArmReply } from "../faults.ts";
import type { SubscriptionState } from "../state/subscription-state.ts";
import type { SimulatedRequest } from "./request.ts";

/** A write that has been validated and is ready to be carried out. */
export interface AcceptedWrite {
  /** The id of the resource that is written. */
  readonly id: string;
  readonly status: number;
  /** True where ARM answers with 202 and without a body: whatever is written, as an operation. */
  readonly isDeferred?: boolean;
  /** Marks the resource as being updated; returns the body of the first reply. */
  begin(): unknown;
  /** Carries the write out; returns the body of the final reply. */
  finish(): unknown;
  /** Marks the resource as failed; a superseded operation leaves no mark. */
  fail(fault: ArmFault): void;
}

/**
 * Replies to a write: with the result, or with the URL to poll for long-running operations. ARM answers with an operation
 * to whatever it creates, however soon that ends.
 */
export function answerWrite(request: SimulatedRequest, state: SubscriptionState, write: AcceptedWrite): ArmReply {
  const { operations } = state;
  const { polls, style } = operations.settings;
  const fault = request.operationFault;
  const isAtOnce = polls === 0 && fault === undefined && !operations.lasts(write.id.toLowerCase());
  if (isAtOnce && (style === "none" || (write.status !== 201 && write.isDeferred !== true))) {
    operations.supersede(write.id);
    return { status: write.status, body: write.finish() };
  }
  const id = operations.start(write.id, {
    fault,
    finish: () => write.finish(),
    fail: (reason) => write.fail(reason),
  });
  const body = write.begin();
  if (isAtOnce) operations.poll(id);
  const headers = {
    ...(style === "location" ? {} : { "azure-asyncoperation": request.operationUrl("operations", id) }),
    ...(style === "azure-asyncoperation" && body !== undefined
      ? {}
      : { location: request.operationUrl("operationResults", id) }),
  };
  return { status: body === undefined ? 202 : write.status, body, headers };
}
