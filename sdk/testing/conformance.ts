/** One promise of a contract. A test runner calls `run`; it rejects, with the reason, when the promise is not kept. */
export interface ConformanceTest {
  readonly name: string;
  readonly run: () => Promise<void>;
}

/** Why something under test does not keep its contract. */
export class ConformanceError extends Error {
  override readonly name = "ConformanceError";
}

export function must(holds: boolean, law: string): asserts holds {
  if (!holds) throw new ConformanceError(law);
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

/** Real milliseconds for which work that must not happen is given the chance to happen. */
const watchfulMs = 100;
export const giveItAChance = (): Promise<void> => pause(watchfulMs);

/**
 * Asks again and again until the answer is neither `undefined` nor `false`, and gives it back. After `limitMs` (default
 * 10 s) it rejects, saying what was awaited; what the question last threw is the cause.
 */
export async function eventually<T>(
  awaited: string,
  ask: () => T | Promise<T>,
  limitMs = 10_000,
): Promise<Exclude<T, undefined | false>> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    let thrown: unknown;
    try {
      const answer = await ask();
      if (isThere(answer)) return answer;
    } catch (error) {
      thrown = error;
    }
    if (performance.now() > deadline)
      throw new ConformanceError(`not within ${limitMs / 1000} s: ${awaited}`, { cause: thrown });
    await pause(5);
  }
}

const isThere = <T>(answer: T): answer is Exclude<T, undefined | false> => answer !== undefined && answer !== false;

/** Resolves with the work, or rejects when it takes longer. */
export async function within<T>(limitMs: number, law: string, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new ConformanceError(`${law} within ${limitMs / 1000} s`)), limitMs);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves once the number has stayed the same for a while. */
export async function settled(count: () => number, limitMs: number): Promise<void> {
  let last = -1;
  let since = performance.now();
  await eventually(
    "the work comes to rest",
    () => {
      if (count() !== last) {
        last = count();
        since = performance.now();
      }
      return performance.now() - since > 3 * watchfulMs;
    },
    limitMs,
  );
}
