import { expect, test } from "bun:test";

import { ApiError, forEachConcurrently, repeat, retryOnConflict, runTogether } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

const burn = (ms: number): void => {
  for (const until = performance.now() + ms; performance.now() < until;);
};

/** Turns of the event loop that other work of the process gets during `work`. */
async function turnsDuring(work: () => Promise<void>): Promise<number> {
  let [turns, over] = [0, false];
  const count = (): void => {
    turns += 1;
    if (!over) setImmediate(count);
  };
  setImmediate(count);
  await work();
  over = true;
  return turns;
}

test("leaves turns of the event loop to others, however many workers, while each item's work needs no I/O", async () => {
  const items = Array.from({ length: 300 }, (_, index) => index);
  const done: number[] = [];
  const turns = await turnsDuring(() =>
    forEachConcurrently({ workers: 64 }, items, async (item) => {
      burn(1);
      done.push(item);
    }),
  );
  expect(done.toSorted((one, other) => one - other)).toEqual(items);
  // Workers with a budget each would need one turn for all.
  expect(turns).toBeGreaterThan(20);
});

test("starts no further item when the signal aborts while the event loop is left to others", async () => {
  const stop = new AbortController();
  const started: number[] = [];
  await forEachConcurrently({ workers: 1, signal: stop.signal }, [1, 2, 3], async (item) => {
    started.push(item);
    burn(10);
    setImmediate(() => stop.abort());
  });
  expect(started).toEqual([1]);
});

test("ends with the work that it has begun when the signal aborts, without a turn of the event loop", async () => {
  const stop = new AbortController();
  let turned = false;
  const work = forEachConcurrently({ workers: 1, signal: stop.signal }, [1, 2], async () => {
    burn(10);
    await Promise.resolve();
    stop.abort();
  });
  setImmediate(() => (turned = true));
  await work;
  expect(turned).toBe(false);
});

test("throws the first failure once all work that had begun has ended, and begins no more", async () => {
  const slow = Promise.withResolvers<void>();
  const [began, ended]: [number[], number[]] = [[], []];
  const failure = new Error("the second");
  let thrown: unknown;
  const work = forEachConcurrently({ workers: 2 }, [1, 2, 3, 4], async (item) => {
    began.push(item);
    if (item === 2) throw failure;
    await slow.promise;
    ended.push(item);
    throw new Error("later");
  }).catch((error: unknown) => void (thrown = error));
  await Bun.sleep(20);
  expect([began, thrown]).toEqual([[1, 2], undefined]);
  slow.resolve();
  await work;
  expect([began, ended, thrown]).toEqual([[1, 2], [1], failure]);

  const atOnce = forEachConcurrently({ workers: 1 }, [1, 2], (item) => {
    began.push(item);
    throw failure;
  });
  expect(await atOnce.catch((error: unknown) => error)).toBe(failure);
  expect(began).toEqual([1, 2, 1]);
});

test("a number of workers that is not a number is an error, not a loop that does nothing", async () => {
  const options: { readonly workers: number } = JSON.parse("{}");
  const work = forEachConcurrently(options, [1], async () => undefined);
  expect(await work.catch((error: unknown) => error)).toEqual(
    new TypeError("forEachConcurrently: workers must be a number, got undefined"),
  );
});

test("retries a conflict, also as a cause, up to the number of steps, and no other error", async () => {
  const clock = manualClock();
  const options = { clock, steps: 3, pauseMs: 0 };
  const conflict = new ApiError(409, "Conflict", "the object has been modified");
  const cause = new Error("cannot update the object", { cause: conflict });
  const attempts: number[] = [];
  const done = await retryOnConflict(options, async (index) => {
    attempts.push(index);
    if (index === 0) throw conflict;
    if (index === 1) throw cause;
    return "done";
  });
  expect([done, attempts]).toEqual(["done", [0, 1, 2]]);
  for (const [error, count] of [
    [cause, 3],
    [new ApiError(409, "AlreadyExists", "it exists"), 1],
  ] as const) {
    let tried = 0;
    const work = retryOnConflict(options, async () => {
      tried += 1;
      throw error;
    });
    expect(await work.catch((thrown: unknown) => thrown)).toBe(error);
    expect(tried).toBe(count);
  }
});

test("parts of a controller are stopped when one fails, which is thrown once all have stopped", async () => {
  const failure = new Error("the first");
  const [stopped, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let thrown: unknown;
  const work = runTogether(new AbortController().signal, [
    () => Promise.reject(failure),
    async (signal) => {
      while (!signal.aborted) await Bun.sleep(1);
      stopped.resolve();
      await gate.promise;
    },
  ]).catch((error: unknown) => void (thrown = error));
  await stopped.promise;
  await Bun.sleep(1);
  expect(thrown).toBeUndefined();
  gate.resolve();
  await work;
  expect(thrown).toBe(failure);
});

test("parts of a controller that fail together are thrown together", async () => {
  const failures = [new Error("one"), new Error("two")];
  const work = runTogether(
    new AbortController().signal,
    failures.map((failure) => () => Promise.reject(failure)),
  );
  const thrown = await work.catch((error: unknown) => error);
  expect(thrown).toBeInstanceOf(AggregateError);
  expect(thrown).toMatchObject({ errors: failures });
});

test("a pass is repeated after a period that begins with its end, until the signal aborts", async () => {
  const clock = manualClock();
  const stop = new AbortController();
  const begunMs: number[] = [];
  const repeated = repeat({ clock, signal: stop.signal, periodMs: 1_000 }, async () => {
    begunMs.push(clock.monotonic());
    await clock.sleep(200);
  });
  await clock.advance(3_000);
  expect(begunMs).toEqual([0, 1_200, 2_400]);
  stop.abort();
  await clock.advance(5_000);
  await repeated;
  expect(begunMs).toHaveLength(3);
});
