import type { KindRef, KubeObject } from "cloud-controller-host/sdk";

import type { Named, Problem } from "./access/status.ts";
import type { RecordSchema } from "./schema/schema.ts";
import type { ServiceAddresses } from "./service-addresses.ts";

export type Cell = string | number;

/** A column of `kubectl get`; `wide` columns are printed with `-o wide` only. */
export interface Column<T extends KubeObject> {
  readonly name: string;
  readonly type?: "string" | "integer";
  readonly wide?: boolean;
  /** `now` is in milliseconds since 1970. */
  cell(object: T, now: number): Cell;
}

/** State beyond the object that hooks may read during a write. */
export interface WriteContext {
  readonly addresses: ServiceAddresses;
  readonly namespaces: {
    /** Throws a 404 for a missing namespace, a 403 for one that is being deleted. */
    assertOpen(namespace: string, resource: Named, name: string): void;
  };
}

/** The RFC 1123 rule for names. */
export type NameRule = "subdomain" | "label";

interface Behavior {
  readonly singular: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
  readonly schema: RecordSchema;
  /** Has `/status`: status is written there only, and nothing else is. */
  readonly status: boolean;
  /** A custom resource: a write to `/status` leaves its metadata alone, and its finalizers need no domain. */
  readonly custom: boolean;
  /** Stores the status of a create request. */
  readonly statusOnCreate: boolean;
  /** Changes that increment `metadata.generation`: none, all but metadata and status, or those and labels. */
  readonly generation: "none" | "content" | "contentAndLabels";
  /** A PUT to an unused name creates the object. */
  readonly createOnUpdate: boolean;
  /** A PUT must carry a resourceVersion. */
  readonly conditionalUpdate: boolean;
  /** DELETE returns the object instead of a `Status`. */
  readonly returnsDeleted: boolean;
  /** Its spec is written at `/finalize` only. */
  readonly finalize: boolean;
  /** Supports `deletecollection`. */
  readonly deleteCollection: boolean;
  readonly nameRule: NameRule;
}

interface Hooks<T extends KubeObject> {
  readonly columns: readonly Column<T>[];
  /** Supported field selectors in addition to `metadata.name` and `metadata.namespace`. */
  fields(object: T): Readonly<Record<string, string>>;
  /** Finalizers that delay the removal of a deleted object. */
  finalizers(object: T): readonly string[];
  /** Sets defaults and allocations. `before` is undefined for a new object. */
  prepare(next: T, before: T | undefined, context: WriteContext): T;
  problems(next: T, before: T | undefined, context: WriteContext): readonly Problem[];
}

/** A kind. Omitted members have the defaults of most kinds. */
export type ResourceSpec<T extends KubeObject> = { readonly kind: KindRef<T> } & Pick<Behavior, "singular" | "schema"> &
  Partial<Behavior> &
  Partial<Hooks<T>>;

/** A kind, independent of the type of its objects. */
export interface Resource extends Behavior, Hooks<KubeObject> {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  readonly plural: string;
  readonly namespaced: boolean;
}

/** Declares a kind. */
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
    custom: false,
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

/** The age of a time in kubectl's form: `45s`, `3m20s`, `2d4h`. */
export function ageOf(time: string | null | undefined, now: number): string {
  const then = Date.parse(time ?? "");
  return Number.isNaN(then) ? "<unknown>" : duration(Math.max(0, Math.floor((now - then) / 1000)));
}

/** Source: apimachinery `duration.HumanDuration`. */
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
