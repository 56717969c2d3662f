import { CodedError } from "cloud-controller-host/sdk";

/** Azure's own limits are shorter; this one keeps an operation that never ends from blocking every later write. */
const operationLimitMs = 10 * 60_000;

/** Sends a write and waits for its long-running operation, for ten minutes at most. `what` names it in the error. */
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
    throw limit.signal.aborted ? limit.signal.reason : error;
  } finally {
    clearTimeout(timer);
  }
}
