import type { Clock } from "./context.ts";
import { errorChain, isConflict } from "./errors.ts";

/** Longest time that a loop without I/O may hold the event loop before it yields. */
const budgetMs = 5;

/**
 * Keeps a long loop from starving the rest of the process, above all the lease. Call it between two items: it returns
 * undefined within the budget of this turn, and then a promise that resolves in a later turn. Loops that run side by
 * side share one, and so one budget, and call it again after the promise: a turn would otherwise last as long as all
 * budgets together, or an item of each.
 */
export function createCooperativeYield(): () => Promise<void> | undefined {
  let turnBegan = performance.now();
  let waiting: Promise<void> | undefined;
  const nextTurn = async (): Promise<void> => {
    await new Promise<void>((resolve) => void setImmediate(resolve));
    waiting = undefined;
    turnBegan = performance.now();
  };
  return () => {
    if (waiting === undefined && performance.now() - turnBegan >= budgetMs) waiting = nextTurn();
    return waiting;
  };
}

/** Runs `pass` immediately and again `periodMs` after each run has ended, until the signal aborts. */
export async function repeat(
  options: { readonly clock: Clock; readonly signal: AbortSignal; readonly periodMs: number },
  pass: () => Promise<void>,
): Promise<void> {
  const { clock, signal, periodMs } = options;
  while (!signal.aborted) {
    await pass();
    await clock.sleep(periodMs, signal);
  }
}

/**
 * Calls `work` for each item, up to `workers` concurrently. Starts no further item once the signal aborts or one has
 * failed; rejects with the first failure when all that have started have ended. Work that needs no I/O does not hold the
 * event loop for all items at once.
 */
export async function forEachConcurrently<T>(
  options: { readonly workers: number; readonly signal?: AbortSignal },
  items: readonly T[],
  work: (item: T, index: number) => Promise<void>,
): Promise<void> {
  const workers = Math.min(Math.max(1, options.workers), items.length);
  // Of a plugin that is not type-checked: no worker would start, and it would resolve with nothing done.
  if (Number.isNaN(workers))
    throw new TypeError(`forEachConcurrently: workers must be a number, got ${options.workers}`);
  const iterator = items.entries();
  const pause = createCooperativeYield();
  const failures: unknown[] = [];
  const isOver = (): boolean => failures.length > 0 || options.signal?.aborted === true;
  const worker = async (): Promise<void> => {
    for (const [index, item] of iterator) {
      // A stop does not wait for the turns of others.
      for (let turn = pause(); turn !== undefined && !isOver(); turn = pause()) await turn;
      if (isOver()) return;
      try {
        await work(item, index);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: workers }, worker));
  if (failures.length > 0) throw failures[0];
}

/**
 * upstream: `retry.RetryOnConflict`: retries after a 409 Conflict, also as the cause of the error, up to `steps` attempts,
 * with jittered pauses.
 */
export async function retryOnConflict<T>(
  options: { readonly clock: Clock; readonly steps: number; readonly pauseMs: number; readonly signal?: AbortSignal },
  attempt: (index: number) => Promise<T>,
): Promise<T> {
  for (let index = 0; ; index++) {
    try {
      return await attempt(index);
    } catch (error) {
      if (!errorChain(error).some(isConflict) || index + 1 >= options.steps || options.signal?.aborted) throw error;
      await options.clock.sleep(options.pauseMs * (1 + Math.random()), options.signal);
    }
  }
}

/**
 * Runs the parts of a controller side by side. When one fails, the others are stopped; the failure is thrown only
 * when all of them have, so that `run` resolves only when all work has stopped.
 */
export async function runTogether(
  signal: AbortSignal,
  parts: readonly ((signal: AbortSignal) => Promise<void>)[],
): Promise<void> {
  const failure = new AbortController();
  const either = AbortSignal.any([signal, failure.signal]);
  const results = await Promise.allSettled(
    parts.map(async (part) => {
      try {
        await part(either);
      } catch (error) {
        failure.abort(error);
        throw error;
      }
    }),
  );
  const reasons = results.flatMap((result) => (result.status === "rejected" ? [result.reason] : []));
  if (reasons.length > 1) throw new AggregateError(reasons, "several parts of the controller failed");
  if (reasons.length === 1) throw reasons[0];
}
