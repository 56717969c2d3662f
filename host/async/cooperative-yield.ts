import { setImmediate } from "node:timers/promises";

/** Longest time that a loop without awaits may hold the event loop before it yields. */
const budgetMs = 5;

/**
 * Keeps a long loop from starving the rest of the process, above all the lease. Call it between two items: it returns
 * undefined within the budget of this turn, and then a promise that resolves in a later turn.
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
