/** Message of the error that the promise rejects with. Fails if the promise fulfills. */
export const rejection = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => {
      throw new Error("expected a rejection");
    },
    (error: unknown) => (error instanceof Error ? error.message : String(error)),
  );

/** The error that the promise rejects with; undefined if it fulfills. */
export const errorOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  );
