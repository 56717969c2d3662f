import { CodedError } from "cloud-controller-host/sdk";

import { ArmError } from "../errors.ts";
import { isConflicting } from "./write-errors.ts";

/** Azure's own limits are shorter; this one keeps an operation that never ends from blocking every later write. */
const operationLimitMs = 10 * 60_000;

/** The SDK's errors for operations whose state is that of the resource. They name neither. */
const anonymousFailure = /^The long-running operation has /u;

/**
 * True for the error of an accepted write if its operation has ended, or if the write is attempted again from a new read.
 * An operation that is not waited for any more, or whose polls are refused or get no reply, may still end.
 */
export const hasOperationEnded = (error: unknown): boolean =>
  isConflicting(error) ||
  (error instanceof ArmError && error.failedOperation) ||
  (error instanceof CodedError && error.code === "OperationFailed");

/** Sends a write and waits for its long-running operation, for ten minutes at most. `what` names it in the errors. */
export async function withOperationLimit<T>(
  what: string,
  signal: AbortSignal,
  send: (abortSignal: AbortSignal) => PromiseLike<T>,
  limitMs: number = operationLimitMs,
): Promise<T> {
  const limit = new AbortController();
  const timer = setTimeout(() => {
    limit.abort(new CodedError("OperationTimeout", `${what}: the operation did not end within ${limitMs / 1000} s`));
  }, limitMs);
  try {
    return await send(AbortSignal.any([signal, limit.signal]));
  } catch (error) {
    if (limit.signal.aborted) throw limit.signal.reason;
    if (!(error instanceof Error) || !anonymousFailure.test(error.message)) throw error;
    throw new CodedError("OperationFailed", `${what}: ${error.message}`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}
