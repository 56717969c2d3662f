/** Resolves once the condition holds; fails, naming it, after a generous while. */
export async function eventually(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 15_000;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`never came to pass: ${what}`);
    await Bun.sleep(2);
  }
}

/** What the promise was rejected with, as its message; fails when it is fulfilled. */
export const rejection = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => {
      throw new Error("expected a rejection");
    },
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );
