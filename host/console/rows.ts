import { createCooperativeYield, type KubeObject, type Store } from "cloud-controller-host/sdk";

/** A row, with the text that a filter looks into. */
export interface Indexed<Row> {
  readonly row: Row;
  readonly text: string;
}

export interface Listing {
  readonly filter: string;
  readonly sort: string;
  readonly descending: boolean;
  readonly offset: number;
  readonly limit: number;
}

const maxLimit = 500;
const maxFilter = 200;
const chunk = 512;

/** Reads the query of a list; invalid values count as absent. */
export function listingOf(query: URLSearchParams): Listing {
  const whole = (name: string, otherwise: number, most: number): number => {
    const text = query.get(name) ?? "";
    return /^\d{1,9}$/u.test(text) ? Math.min(Number(text), most) : otherwise;
  };
  const sort = query.get("sort") ?? "";
  return {
    filter: (query.get("filter") ?? "").slice(0, maxFilter).toLowerCase(),
    sort: sort.replace(/^-/u, ""),
    descending: sort.startsWith("-"),
    offset: whole("offset", 0, Number.MAX_SAFE_INTEGER),
    limit: whole("limit", 100, maxLimit),
  };
}

/** The text of a filter for a row: `state:ready`, and every value of it. */
export const indexed = <Row extends object>(row: Row, state: string): Indexed<Row> => ({
  row,
  text: [`state:${state}`, ...Object.values(row)].join("\n").toLowerCase(),
});

/**
 * Rows of the objects in a store. A row is made once per version of its object, and all pages share the rows; the loop
 * yields, so that a large cluster never blocks the process.
 */
export class ObjectRows<T extends KubeObject, Row extends { readonly state: string }> {
  readonly #store: () => Store<T> | undefined;
  readonly #rowOf: (object: T) => Row;
  readonly #known = new WeakMap<T, Indexed<Row>>();
  #listed: readonly T[] | undefined;
  #making: Promise<readonly Indexed<Row>[]> | undefined;

  constructor(store: () => Store<T> | undefined, rowOf: (object: T) => Row) {
    this.#store = store;
    this.#rowOf = rowOf;
  }

  /** Undefined while the kind is not watched. */
  all(): Promise<readonly Indexed<Row>[]> | undefined {
    const listed = this.#store()?.list();
    if (listed === undefined) return undefined;
    if (this.#making === undefined || listed !== this.#listed) {
      this.#listed = listed;
      this.#making = this.#make(listed);
    }
    return this.#making;
  }

  #index(object: T): Indexed<Row> {
    const row = this.#rowOf(object);
    const made = indexed(row, row.state);
    this.#known.set(object, made);
    return made;
  }

  async #make(listed: readonly T[]): Promise<readonly Indexed<Row>[]> {
    const pause = createCooperativeYield();
    const rows: Indexed<Row>[] = [];
    for (const object of listed) {
      const row = this.#known.get(object) ?? this.#index(object);
      rows.push(row);
      const turn = pause();
      if (turn !== undefined) await turn;
    }
    return rows;
  }
}

/** The rows of one page of a list, and how many there are by state. */
export async function pageOf<Row extends object>(
  all: readonly Indexed<Row>[],
  { filter, sort, descending, offset, limit }: Listing,
  stateOf: (row: Row) => string,
): Promise<{ total: number; matching: number; offset: number; rows: Row[]; counts: Record<string, number> }> {
  const pause = createCooperativeYield();
  const counts: Record<string, number> = {};
  const matching: Row[] = [];
  for (const { row, text } of all) {
    const state = stateOf(row);
    counts[state] = (counts[state] ?? 0) + 1;
    if (text.includes(filter)) matching.push(row);
    const turn = pause();
    if (turn !== undefined) await turn;
  }
  const sorted = sort === "" ? matching : await sortedBy(matching, sort, descending);
  const rows = sorted.slice(offset, offset + limit);
  return { total: all.length, matching: matching.length, offset, rows, counts };
}

/** A merge sort that yields between the merges; equal rows keep their order. */
async function sortedBy<Row extends object>(rows: readonly Row[], key: string, descending: boolean): Promise<Row[]> {
  const pause = createCooperativeYield();
  const valueOf = new Map<Row, string>();
  for (const row of rows) {
    valueOf.set(row, textOf(row, key));
    const turn = pause();
    if (turn !== undefined) await turn;
  }
  const sign = descending ? -1 : 1;
  const compare = (one: Row, other: Row): number => {
    const [a = "", b = ""] = [valueOf.get(one), valueOf.get(other)];
    return a === b ? 0 : sign * (a < b ? -1 : 1);
  };
  let runs: Row[][] = [];
  for (let at = 0; at < rows.length; at += chunk) {
    runs.push(rows.slice(at, at + chunk).toSorted(compare));
    await pause();
  }
  while (runs.length > 1) {
    const merged: Row[][] = [];
    for (let at = 0; at < runs.length; at += 2) {
      merged.push(merge(runs[at] ?? [], runs[at + 1] ?? [], compare));
      await pause();
    }
    runs = merged;
  }
  return runs[0] ?? [];
}

function merge<Row>(one: readonly Row[], other: readonly Row[], compare: (a: Row, b: Row) => number): Row[] {
  const merged: Row[] = [];
  let [i, j] = [0, 0];
  while (merged.length < one.length + other.length) {
    const [a, b] = [one[i], other[j]];
    if (b === undefined || (a !== undefined && compare(a, b) <= 0)) {
      if (a !== undefined) merged.push(a);
      i += 1;
    } else {
      merged.push(b);
      j += 1;
    }
  }
  return merged;
}

/** Numbers sort as numbers. */
function textOf(row: object, key: string): string {
  const value: unknown = Object.hasOwn(row, key) ? Reflect.get(row, key) : "";
  if (typeof value === "number") return value.toFixed(3).padStart(20, "0");
  return typeof value === "string" ? value : "";
}
