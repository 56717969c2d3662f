import { CodedError, FencedError, isAborted, messageOf, RetryAfterError } from "cloud-controller-host/sdk";

/** Says which step failed. What the cloud asked to wait is kept, wherever in the chain of causes it says so. */
export function stepFailed(name: string, error: unknown): CodedError {
  const message = `${name}: ${messageOf(error)}`;
  const wait = retryAfterOf(error);
  return wait === undefined
    ? new CodedError("ServiceSyncFailed", message, { cause: error })
    : new RetryAfterError(wait, message, { cause: error });
}

/** What the cloud asked to wait, in milliseconds. */
export const retryAfterOf = (error: unknown): number | undefined =>
  chainOf(error).find((link) => link instanceof RetryAfterError)?.delayMs;

/** Runs one step; its failure names it. */
export async function step<T>(name: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw stepFailed(name, error);
  }
}

const stopping = "Stopping";

/** Asked before each call that changes something at the cloud: one that has not begun leaves nothing half done. */
export function goOn(signal: AbortSignal): void {
  if (signal.aborted) throw new CodedError(stopping, "not begun, because the controller is stopping");
}

/** Whether the work was left to the next generation rather than failed: nothing that an operator need hear of. */
export const isLeftUndone = (error: unknown, signal: AbortSignal): boolean =>
  signal.aborted &&
  chainOf(error).some(
    (link) =>
      link === signal.reason ||
      isAborted(link) ||
      link instanceof FencedError ||
      (link instanceof CodedError && link.code === stopping),
  );

function chainOf(error: unknown): readonly Error[] {
  return error instanceof Error ? [error, ...chainOf(error.cause)] : [];
}
