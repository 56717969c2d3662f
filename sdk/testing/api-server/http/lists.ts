import { badRequest, expired, futureRevision } from "../access/status.ts";
import type { Selection } from "../selectors.ts";
import type { Collection, Revisions } from "../store/collection.ts";
import type { Stored } from "../store/stored.ts";

/** Lists of which a client has not read the last page; beyond this number the oldest expires. */
const maxSnapshots = 256;

interface Snapshot {
  readonly items: readonly Stored[];
  readonly revision: number;
}

/** One page of a list. `continueToken` is empty on the last one. */
interface Page {
  readonly items: readonly Stored[];
  readonly revision: number;
  readonly continueToken: string;
  readonly remaining: number;
}

/** Serves lists in pages; all pages of a list are of the same revision. */
export class Lists {
  readonly #revisions: Revisions;
  readonly #snapshots = new Map<string, Snapshot>();

  constructor(revisions: Revisions) {
    this.#revisions = revisions;
  }

  /** `exactly`: the list at that revision, available only while nothing of the kind has changed since. */
  read(collection: Collection, selection: Selection, limit: number, token: string, exactly?: number): Page {
    if (token !== "") return this.#page(token, limit);
    if (exactly !== undefined && collection.since(exactly)?.length !== 0)
      throw expired(`The resourceVersion ${exactly} for the provided list is too old.`);
    const { namespace, matches } = selection;
    const all = collection.list(namespace);
    const items = matches === undefined ? all : all.filter(({ object }) => matches(object));
    const revision = exactly ?? this.#revisions.current;
    if (limit === 0 || items.length <= limit) return { items, revision, continueToken: "", remaining: 0 };
    const id = crypto.randomUUID();
    this.#keep(id, { items, revision });
    return this.#page(`${id}.0`, limit);
  }

  /** Makes every list that is still being read expire. */
  forget(): void {
    this.#snapshots.clear();
  }

  #keep(id: string, snapshot: Snapshot): void {
    this.#snapshots.set(id, snapshot);
    const oldest = this.#snapshots.keys().next();
    if (this.#snapshots.size > maxSnapshots && !oldest.done) this.#snapshots.delete(oldest.value);
  }

  #page(token: string, limit: number): Page {
    const match = /^([0-9a-f-]{36})\.(\d+)$/.exec(token);
    if (match === null) throw badRequest("continue key is not valid");
    const [, id = "", start = "0"] = match;
    const snapshot = this.#snapshots.get(id);
    if (snapshot === undefined)
      throw expired("The provided continue parameter is too old to display a consistent list result.");
    const end = limit === 0 ? snapshot.items.length : Number(start) + limit;
    const remaining = Math.max(0, snapshot.items.length - end);
    return {
      items: snapshot.items.slice(Number(start), end),
      revision: snapshot.revision,
      continueToken: remaining === 0 ? "" : `${id}.${end}`,
      remaining,
    };
  }

  /** Throws a 504 for a revision that the server has not reached. */
  assertReached(text: string | null): void {
    const wanted = parseRevision(text);
    if (wanted !== undefined && wanted > this.#revisions.current) throw futureRevision(wanted, this.#revisions.current);
  }
}

/** A resourceVersion of a query; undefined for none. Throws a 400 for anything that is not a whole number. */
export function parseRevision(text: string | null): number | undefined {
  if (text === null || text === "") return undefined;
  if (!/^\d+$/.test(text)) throw badRequest(`Invalid value: ${JSON.stringify(text)}: must be a resource version`);
  return Number(text);
}

export function listMetadata({ revision, continueToken, remaining }: Page, selected: boolean): string {
  return JSON.stringify({
    resourceVersion: String(revision),
    ...(continueToken === "" ? {} : { continue: continueToken }),
    ...(continueToken === "" || selected ? {} : { remainingItemCount: remaining }),
  });
}
