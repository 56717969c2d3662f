/** What the promise was rejected with, as its message; fails when it is fulfilled. */
export const rejection = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => {
      throw new Error("expected a rejection");
    },
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );

/** What the promise was rejected with; undefined when it was fulfilled. */
export const errorOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );
