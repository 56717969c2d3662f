/** One test of a contract. A test runner calls `run`, which rejects with the reason when the contract is broken. */
export interface ConformanceTest {
  readonly name: string;
  readonly run: () => Promise<void>;
  /** The reason why the test does not apply; a test runner reports it and does not call `run`. */
  readonly skip?: string;
}

/** A broken contract. */
export class ConformanceError extends Error {
  override readonly name = "ConformanceError";
}

export function must(condition: boolean, problem: string): asserts condition {
  if (!condition) throw new ConformanceError(problem);
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));

/** Between two probes, in milliseconds. What a probe waits for needs the processor: a slow one comes less often. */
const pauses = { shortest: 5, longest: 100, timesProbe: 9 };

/** Time in milliseconds in which unwanted work would happen. */
const graceMs = 100;
export const allowForUnwantedWork = (): Promise<void> => pause(graceMs);

/**
 * Polls `probe` until its result is neither `undefined` nor `false`, and returns it. After `limitMs` (default 30,000) it
 * rejects with a message that names `awaited`; the last error of `probe` is the cause.
 */
export async function eventually<T>(
  awaited: string,
  probe: () => T | Promise<T>,
  limitMs = 30_000,
): Promise<Exclude<T, undefined | false>> {
  const deadline = performance.now() + limitMs;
  for (;;) {
    const began = performance.now();
    let thrown: unknown;
    try {
      const result = await probe();
      if (isPresent(result)) return result;
    } catch (error) {
      thrown = error;
    }
    const ended = performance.now();
    if (ended > deadline) throw new ConformanceError(`not within ${limitMs / 1000} s: ${awaited}`, { cause: thrown });
    await pause(Math.min(pauses.longest, Math.max(pauses.shortest, pauses.timesProbe * (ended - began))));
  }
}

const isPresent = <T>(result: T): result is Exclude<T, undefined | false> => result !== undefined && result !== false;

/** Resolves with the result of `work`, or rejects after `limitMs`. */
export async function within<T>(limitMs: number, expected: string, work: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new ConformanceError(`${expected} within ${limitMs / 1000} s`)), limitMs);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves when the count has stopped changing. */
export async function settled(count: () => number, limitMs: number): Promise<void> {
  let last = -1;
  let since = performance.now();
  await eventually(
    "the writes stop",
    () => {
      if (count() !== last) {
        last = count();
        since = performance.now();
      }
      return performance.now() - since > 3 * graceMs;
    },
    limitMs,
  );
}

/** Marks tests as skipped, each with its reason. Throws when a name is unknown or a reason is missing. */
export function withSkips(
  tests: readonly ConformanceTest[],
  skip: Readonly<Record<string, string>> = {},
): readonly ConformanceTest[] {
  for (const [name, reason] of Object.entries(skip)) {
    if (!tests.some((test) => test.name === name))
      throw new ConformanceError(
        `skip: unknown test "${name}"; the tests are ${tests.map((test) => test.name).join("; ")}`,
      );
    if (reason.trim() === "") throw new ConformanceError(`skip: give a reason for "${name}"`);
  }
  return tests.map((test) => {
    const reason = Object.hasOwn(skip, test.name) ? skip[test.name] : undefined;
    return reason === undefined ? test : { ...test, skip: reason };
  });
}
