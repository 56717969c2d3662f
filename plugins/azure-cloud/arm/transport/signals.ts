import type { PipelineRequest, PipelineResponse, SendRequest } from "@azure/core-rest-pipeline";

/** A signal as the SDK passes it on; not always a real one. */
type SignalLike = NonNullable<PipelineRequest["abortSignal"]>;

export interface LinkedSignal {
  readonly signal: AbortSignal;
  /** Releases both. Otherwise long-lived signals would retain every linked request. */
  release(): void;
}

export const reasonOf = (signal: SignalLike | undefined): unknown =>
  signal instanceof AbortSignal ? signal.reason : undefined;

/** A signal that aborts when either of two does, with its reason. */
export function linkSignals(first: AbortSignal, second: SignalLike | undefined): LinkedSignal {
  if (second === undefined) return { signal: first, release: () => undefined };
  const controller = new AbortController();
  const onFirst = (): void => controller.abort(first.reason);
  const onSecond = (): void => controller.abort(reasonOf(second));
  if (first.aborted) onFirst();
  else if (second.aborted) onSecond();
  first.addEventListener("abort", onFirst);
  second.addEventListener("abort", onSecond);
  return {
    signal: controller.signal,
    release() {
      first.removeEventListener("abort", onFirst);
      second.removeEventListener("abort", onSecond);
    },
  };
}

/** Sends a request with a signal in place of its own, by which outer policies know it. */
export async function sendWith(
  signal: AbortSignal,
  request: PipelineRequest,
  next: SendRequest,
): Promise<PipelineResponse> {
  const own = request.abortSignal;
  request.abortSignal = signal;
  try {
    return await next(request);
  } finally {
    if (own === undefined) delete request.abortSignal;
    else request.abortSignal = own;
  }
}

/** Settles like the work, or rejects as soon as the caller's own signal aborts; shared work continues. */
export async function abandonable<T>(work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work();
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([work(), aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
