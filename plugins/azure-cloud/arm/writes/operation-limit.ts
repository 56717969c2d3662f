import { CodedError } from "cloud-controller-host/sdk";

import { ArmError } from "../errors.ts";
import { isConflicting, noteUnended } from "./write-errors.ts";

/** Azure's own limits are shorter; this one keeps an operation that never ends from blocking every later write. */
const operationLimitMs = 10 * 60_000;

/** The SDK's errors for operations whose state is that of the resource. They name neither. */
const anonymousFailure = /^The long-running operation has /u;

/**
 * True for the error of an accepted write if its operation has ended, or if the write is attempted again from a new read.
 * An operation that is not waited for any more, or whose polls are refused or get no reply, may still end.
 */
const hasOperationEnded = (error: unknown): boolean =>
  isConflicting(error) ||
  (error instanceof ArmError && error.failedOperation) ||
  (error instanceof CodedError && error.code === "OperationFailed");

/**
 * Sends a write and waits for its long-running operation, for ten minutes at most. `what` names it in the errors. `send`
 * calls `onResponse` for each reply of success, as the SDK does: `isLost` is true of an error after that unless the
 * operation has ended.
 */
export async function withOperationLimit<T>(
  what: string,
  signal: AbortSignal,
  send: (abortSignal: AbortSignal, onResponse: () => void) => PromiseLike<T>,
  limitMs: number = operationLimitMs,
): Promise<T> {
  const limit = new AbortController();
  const timer = setTimeout(() => {
    limit.abort(new CodedError("OperationTimeout", `${what}: the operation did not end within ${limitMs / 1000} s`));
  }, limitMs);
  let isAccepted = false;
  try {
    return await send(AbortSignal.any([signal, limit.signal]), () => (isAccepted = true));
  } catch (error) {
    const failure: unknown = limit.signal.aborted ? limit.signal.reason : named(what, error);
    if (isAccepted && failure instanceof Error && !hasOperationEnded(failure)) noteUnended(failure);
    throw failure;
  } finally {
    clearTimeout(timer);
  }
}

const named = (what: string, error: unknown): unknown =>
  error instanceof Error && anonymousFailure.test(error.message)
    ? new CodedError("OperationFailed", `${what}: ${error.message}`, { cause: error })
    : error;
