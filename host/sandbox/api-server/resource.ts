import type { KindRef, KubeObject } from "cloud-controller-host/sdk";

import type { ServiceAddresses } from "./kinds/service-addresses.ts";
import type { RecordSchema } from "./schema/schema.ts";
import type { Named, Problem } from "./status.ts";

export type Cell = string | number;

/** One column of what `kubectl get` prints; `wide` columns show with `-o wide` only. */
export interface Column<T extends KubeObject> {
  readonly name: string;
  readonly type?: "string" | "integer";
  readonly wide?: boolean;
  /** `now` is in milliseconds since 1970. */
  cell(object: T, now: number): Cell;
}

/** What a kind may look at, beside the object itself, while it is written. */
export interface WriteContext {
  readonly addresses: ServiceAddresses;
  readonly namespaces: {
    /** Throws a 404 for a missing namespace, a 403 for one that is being deleted. */
    assertOpen(namespace: string, resource: Named, name: string): void;
  };
}

/** What a name must look like, after RFC 1123. */
export type NameRule = "subdomain" | "label";

interface Behaviour {
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly schema: RecordSchema;
  /** Has `/status`: status is written there only, and nothing else is. */
  readonly status: boolean;
  /** Keeps the status that it is created with. */
  readonly statusOnCreate: boolean;
  /** What `metadata.generation` counts changes of: nothing, all but metadata and status, or that and the labels. */
  readonly generation: "none" | "content" | "contentAndLabels";
  /** A PUT to a name that is free creates the object. */
  readonly createOnUpdate: boolean;
  /** A PUT must carry a resourceVersion. */
  readonly conditionalUpdate: boolean;
  /** A DELETE answers with the object instead of a `Status`. */
  readonly returnsDeleted: boolean;
  /** Its spec is written at `/finalize` only. */
  readonly finalize: boolean;
  /** Takes part in `DELETE` of a whole collection. */
  readonly deleteCollection: boolean;
  readonly nameRule: NameRule;
}

interface Hooks<T extends KubeObject> {
  readonly columns: readonly Column<T>[];
  /** Fields that a field selector may name, beside `metadata.name` and `metadata.namespace`. */
  fields(object: T): Readonly<Record<string, string>>;
  /** What has to be gone before a deleted object goes. */
  finalizers(object: T): readonly string[];
  /** Fills in what the API server decides: defaults and allocations. `before` is undefined for a new object. */
  prepare(next: T, before: T | undefined, world: WriteContext): T;
  problems(next: T, before: T | undefined, world: WriteContext): readonly Problem[];
}

/** How one kind behaves. What is left out is what most kinds do. */
export type ResourceSpec<T extends KubeObject> = { readonly kind: KindRef<T> } & Pick<
  Behaviour,
  "singular" | "schema"
> &
  Partial<Behaviour> &
  Partial<Hooks<T>>;

/** A kind as the server holds it, whatever its objects look like. */
export interface Resource extends Behaviour, Hooks<KubeObject> {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
}

/** Declares a kind: a typed row in, one that stands beside the others in a table out. */
export function defineResource<T extends KubeObject>(spec: ResourceSpec<T>): Resource {
  const { kind, ...own }: ResourceSpec<KubeObject> = spec;
  const { group, version, plural, namespaced } = kind;
  return {
    group,
    version,
    plural,
    namespaced,
    kind: kind.kind,
    shortNames: [],
    categories: [],
    status: false,
    statusOnCreate: false,
    generation: "none",
    createOnUpdate: false,
    conditionalUpdate: false,
    returnsDeleted: false,
    finalize: false,
    deleteCollection: true,
    nameRule: "subdomain",
    columns: nameAndAge,
    fields: () => ({}),
    finalizers: ({ metadata }) => metadata?.finalizers ?? [],
    prepare: (next) => next,
    problems: () => [],
    ...own,
  };
}

export const nameColumn: Column<KubeObject> = { name: "Name", cell: ({ metadata }) => metadata?.name ?? "" };
export const ageColumn: Column<KubeObject> = {
  name: "Age",
  cell: ({ metadata }, now) => ageOf(metadata?.creationTimestamp, now),
};
const nameAndAge = [nameColumn, ageColumn];

/** How long ago a time was, as people read it: `45s`, `3m20s`, `2d4h`. */
export function ageOf(time: string | null | undefined, now: number): string {
  const then = Date.parse(time ?? "");
  return Number.isNaN(then) ? "<unknown>" : duration(Math.max(0, Math.floor((now - then) / 1000)));
}

/** The two largest units of a duration, the smaller one only while it still says something. */
function duration(seconds: number): string {
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  const pair = (large: number, unit: string, small: number, smallUnit: string): string =>
    small === 0 ? `${large}${unit}` : `${large}${unit}${small}${smallUnit}`;
  if (seconds < 120) return `${seconds}s`;
  if (minutes < 10) return pair(minutes, "m", seconds % 60, "s");
  if (hours < 3) return `${minutes}m`;
  if (hours < 8) return pair(hours, "h", minutes % 60, "m");
  if (hours < 48) return `${hours}h`;
  if (days < 8) return pair(days, "d", hours % 24, "h");
  if (days < 365 * 2) return `${days}d`;
  const years = Math.floor(days / 365);
  return years < 8 ? pair(years, "y", days % 365, "d") : `${years}y`;
}
