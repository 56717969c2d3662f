import {
  CodedError,
  errorChain,
  type ErrorCode,
  FencedError,
  isAborted,
  messageOf,
  RetryAfterError,
  retryAfterOf,
} from "cloud-controller-host/sdk";

/** Adds the name of the failed step. A `RetryAfterError` anywhere in the chain of causes keeps its delay. */
export function wrapped(name: string, error: unknown): CodedError {
  const message = `${name}: ${messageOf(error)}`;
  const wait = retryAfterOf(error);
  return wait === undefined
    ? new CodedError("ServiceSyncFailed", message, { cause: error })
    : new RetryAfterError(wait, message, { cause: error });
}

/** Runs a step; its name prefixes the error of a failure. */
export async function wrapError<T>(name: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw wrapped(name, error);
  }
}

const stopping: ErrorCode = "Stopping";

/** Checked before each cloud call that writes: a call that never started leaves nothing half done. */
export function throwIfStopping(signal: AbortSignal): void {
  if (signal.aborted) throw new CodedError(stopping, "not started because the controller is stopping");
}

/** True when the work was left to the next generation because this one is stopping; not an error to report. */
export const isInterrupted = (error: unknown, signal: AbortSignal): boolean =>
  signal.aborted &&
  errorChain(error).some(
    (link) =>
      link === signal.reason ||
      isAborted(link) ||
      link instanceof FencedError ||
      (link instanceof CodedError && link.code === stopping),
  );
