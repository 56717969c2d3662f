import { setImmediate } from "node:timers/promises";

/** Work that never waits for anything may hold the event loop no longer than this before it gives way. */
const budgetMs = 5;

/**
 * Keeps a loop that never waits from starving the rest of the process, the lease first of all. Call it between two
 * items: it returns undefined while the turn's budget lasts, and then a promise that resolves in a later turn.
 */
export function createCooperativeYield(): () => Promise<void> | undefined {
  let turnBegan = performance.now();
  const nextTurn = async (): Promise<void> => {
    await setImmediate(undefined);
    turnBegan = performance.now();
  };
  return () => {
    return performance.now() - turnBegan < budgetMs ? undefined : nextTurn();
  };
}
