import {
  type HeldRemovals,
  isObject,
  type PlannedWrite,
  type Planning,
  type ResourceDocument,
  type WriteInFlight,
} from "cloud-controller-host/sdk";

import type { Document } from "../changes/patches.ts";

/** The system that a change is made in. */
export type System = "cloud" | "kubernetes";

/** All writes of one resource, from its current to its planned state. */
export interface RecordedChange {
  readonly system: System;
  /** A resource ID of the cloud, or `Service default/web`. */
  readonly resource: string;
  /** The resource in words. */
  readonly title: string;
  readonly before: Document | undefined;
  readonly after: Document | undefined;
  readonly interruptions: readonly string[];
}

/** Collects the writes of a plan. A resource that ends as it began is not a change. */
export class RecordedWrites implements Planning {
  readonly #changes = new Map<string, RecordedChange>();
  readonly #held = new Map<string, HeldRemovals>();
  readonly #placeholders = new Set<string>();
  readonly #read = new Map<string, ResourceDocument>();
  readonly #inFlight = new Map<string, WriteInFlight>();
  readonly #cloudName: string;
  #count = 0;

  readonly read?: Required<Planning>["read"];

  /** `keepsReads`: keeps the resources that the cloud reads, for a bundle. */
  constructor(cloudName: string, { keepsReads = false }: { readonly keepsReads?: boolean } = {}) {
    this.#cloudName = cloudName;
    if (keepsReads) this.read = (id, resource) => this.#keep(id, resource);
  }

  record(write: PlannedWrite): void {
    this.add({ system: "cloud", ...write });
  }

  unknown(placeholder: string): void {
    this.#placeholders.add(placeholder);
  }

  hold(held: HeldRemovals): void {
    this.#held.set(held.resource.toLowerCase(), held);
  }

  inFlight(write: WriteInFlight): void {
    this.#inFlight.set(write.resource.toLowerCase(), write);
  }

  /** Writes of another manager in flight, in the order of their resources. */
  get writesInFlight(): readonly WriteInFlight[] {
    return [...this.#inFlight.values()].toSorted((one, other) => compare(one.resource, other.resource));
  }

  /** Removals that the host would hold, in the order of their resources. */
  get held(): readonly HeldRemovals[] {
    return [...this.#held.values()].toSorted((one, other) => compare(one.resource, other.resource));
  }

  /** Resources that the cloud has read. */
  get resources(): readonly ResourceDocument[] {
    return [...this.#read.values()];
  }

  /** A call of a cloud that cannot plan. */
  call(method: string, subject: string): void {
    const resource = `${this.#cloudName} ${method} ${subject}`;
    this.add({ system: "cloud", resource, title: resource, before: undefined, after: {}, interruptions: [] });
  }

  add(write: RecordedChange): void {
    this.#count += 1;
    const key = `${write.system} ${write.resource.toLowerCase()}`;
    const first = this.#changes.get(key);
    const interruptions = [...new Set([...(first?.interruptions ?? []), ...write.interruptions])];
    this.#changes.set(key, { ...write, before: first === undefined ? write.before : first.before, interruptions });
  }

  /** Placeholders for values that the cloud will choose. */
  get placeholders(): ReadonlySet<string> {
    return this.#placeholders;
  }

  /** Grows with every write, including those that change nothing. */
  get count(): number {
    return this.#count;
  }

  /** One read may show what another does not, such as the power state. */
  #keep(id: string, resource: ResourceDocument): void {
    const known = this.#read.get(id.toLowerCase());
    this.#read.set(id.toLowerCase(), known === undefined ? resource : merged(known, resource));
  }

  /** Number of resources written so far. */
  get touched(): number {
    return this.#changes.size;
  }

  /** In the order of their resources. */
  get changes(): readonly RecordedChange[] {
    return [...this.#changes.values()]
      .filter(({ before, after }) => !Bun.deepEquals(before, after))
      .toSorted((one, other) => compare(one.system, other.system) || compare(one.resource, other.resource));
  }
}

const merged = (one: ResourceDocument, other: ResourceDocument): ResourceDocument => {
  const [before, after] = [one["properties"], other["properties"]];
  return { ...one, ...other, ...(isObject(before) && isObject(after) && { properties: { ...before, ...after } }) };
};

const compare = (one: string, other: string): number => (one < other ? -1 : Number(one > other));

/** Times within texts, such as that of the next retry. */
const times = /(?<=.)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/gu;
/** Within the text of an error: each attempt has another. */
const correlationIDs = / \(correlation ID [^)\s]+\)/gu;

/** A document whose texts do not change with the time or the attempt at which they are written. */
export const withoutTimes = (document: Document): Document =>
  Object.fromEntries(Object.entries(document).map(([key, value]) => [key, timeless(value)]));

function timeless(value: unknown): unknown {
  if (typeof value === "string") return value.replaceAll(times, "(time)").replaceAll(correlationIDs, "");
  if (Array.isArray(value)) return value.map(timeless);
  return isObject(value) ? withoutTimes(value) : value;
}
