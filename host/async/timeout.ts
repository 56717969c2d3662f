import type { Clock } from "cloud-controller-host/sdk";

/** Result of work with a time limit: its value, or none when the limit or the signal came first. */
export type Limited<T> = { readonly done: true; readonly value: T } | { readonly done: false };

/** Waits for `work` for at most `ms`, or until the signal aborts. Rejects if the work does. Leaves no timer behind. */
export async function within<T>(clock: Clock, ms: number, work: Promise<T>, signal?: AbortSignal): Promise<Limited<T>> {
  const finished = new AbortController();
  const abort = (): void => finished.abort();
  signal?.addEventListener("abort", abort, { once: true });
  if (signal?.aborted) abort();
  try {
    return await Promise.race([
      work.then((value): Limited<T> => ({ done: true, value })),
      clock.sleep(ms, finished.signal).then((): Limited<T> => ({ done: false })),
    ]);
  } finally {
    signal?.removeEventListener("abort", abort);
    finished.abort();
  }
}

/** Settles like the work, or rejects with the signal's reason as soon as it aborts; the work continues. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
