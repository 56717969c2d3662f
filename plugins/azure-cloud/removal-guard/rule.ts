import { CodedError } from "cloud-controller-host/sdk";

import { type Item, itemKey, kindOf } from "./items.ts";

/** Removals of a resource that wait for their cause or for a confirmation. */
export class RemovalHeldError extends CodedError {
  constructor(message: string) {
    super("RemovalHeld", message);
  }
}

export interface Limits {
  /** So many removals need no cause. */
  readonly maxRemovals: number;
  /** Nor do removals of so many percent. 100 turns the guard off. */
  readonly maxPercent: number;
}

export interface Change {
  /** The items as they are, of one resource. */
  readonly before: readonly Item[];
  /** Keys of the items that stay. */
  readonly after: ReadonlySet<string>;
  /** True if something that a person did explains that the item goes. */
  readonly isExplained: (item: Item) => boolean;
  /** True if only the config can be the reason. Then no limit applies. */
  readonly isPlaced?: (item: Item) => boolean;
  /** Unexplained removals of this resource within the window, whether or not the items are in `before`. */
  readonly recent: readonly Item[];
}

/** An item and when it was last planned to go, by its key. */
export type Timed = Map<string, { readonly item: Item; readonly atMs: number }>;

export const itemsOf = (timed: Timed): readonly Item[] => [...timed.values()].map(({ item }) => item);

/** Removes what is older; true when nothing is left. */
export function prune(timed: Timed, oldestMs: number): boolean {
  for (const [key, { atMs }] of timed) if (atMs < oldestMs) timed.delete(key);
  return timed.size === 0;
}

/** Removals without a cause, by kind, with those of the window: `removed` are the ones of this change. */
export interface Unexplained {
  readonly kind: string;
  readonly removed: readonly Item[];
  readonly count: number;
  readonly population: number;
  /** They are held although no limit is exceeded. */
  readonly isByPlace?: boolean;
}

/**
 * The removals to hold: those of the kinds of which too many go without a cause. Removals within the window are counted,
 * so that losing a few at a time meets the same limits as losing them at once. Pure.
 */
export function heldRemovals(
  { before, after, isExplained, isPlaced = () => false, recent }: Change,
  limits: Limits,
): readonly Unexplained[] {
  return [...Map.groupBy(before, kindOf)].flatMap(([kind, items]) => {
    const removed = items.filter((item) => !after.has(itemKey(item)) && !isExplained(item));
    const lost = new Set(
      [...removed, ...recent.filter((item) => kindOf(item) === kind && !isExplained(item))].map(itemKey),
    );
    const population = new Set([...items.map(itemKey), ...lost]).size;
    const isTooMany = lost.size > limits.maxRemovals && lost.size * 100 > population * limits.maxPercent;
    if (removed.length > 0 && isTooMany) return [{ kind, removed, count: lost.size, population }];
    const placed = limits.maxPercent < 100 ? removed.filter(isPlaced) : [];
    return placed.length > 0 ? [{ kind, removed: placed, count: placed.length, population, isByPlace: true }] : [];
  });
}
