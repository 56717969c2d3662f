import { type Clock, forEachConcurrently } from "cloud-controller-host/sdk";

import type { SharedRead } from "../arm/reads/shared-read.ts";
import { isDeleting } from "./vm-rules.ts";

/** A record with the computer name that its kubelet registers, in lower case. */
interface Named {
  readonly nodeName: string;
  readonly provisioningState: string;
}

/** The VMs of one list, and what single reads have found since. */
export class VmTable<Row extends Named> {
  #pages = 0;
  readonly #byKey = new Map<string, Row>();
  readonly #byName = new Map<string, Row>();
  /** When VMs that were read by themselves expire, by key. */
  readonly #expiry = new Map<string, number>();
  /** VMs that were found to be absent, and when, by key. */
  readonly #absent = new Map<string, { readonly atMs: number; readonly row: Row | undefined }>();
  /** Names whose node was deleted, and when. */
  readonly #forgotten = new Map<string, number>();

  /** Number of pages of the list. */
  get pages(): number {
    return Math.max(1, this.#pages);
  }

  addPage(rows: Iterable<readonly [string, Row]>): void {
    this.#pages += 1;
    for (const [key, row] of rows) {
      this.#byKey.set(key, row);
      this.#byName.set(row.nodeName, row);
    }
  }

  get(key: string): Row | undefined {
    return this.#byKey.get(key);
  }

  getByName(nodeName: string): Row | undefined {
    return this.#byName.get(nodeName);
  }

  /** Every VM, including those found to be absent: their interfaces may remain. */
  *rows(): Generator<Row> {
    for (const { row } of this.#absent.values()) if (row !== undefined) yield row;
    yield* this.#byKey.values();
  }

  /** Adds or replaces an individually read VM; it expires at that time of the monotonic clock. */
  set(key: string, row: Row, expiresMs: number): void {
    this.#byKey.set(key, row);
    this.#byName.set(row.nodeName, row);
    this.#expiry.set(key, expiresMs);
  }

  /** Removes a VM that does not exist, by an answer of that time. Another one may come under its name. */
  remove(key: string, nowMs: number): void {
    const row = this.#byKey.get(key);
    this.#absent.set(key, { atMs: nowMs, row });
    this.#byKey.delete(key);
    if (row !== undefined && this.#byName.get(row.nodeName) === row) this.#byName.delete(row.nodeName);
  }

  /** Hides the VM of a deleted node from lookups by name: the next node of that name may be another VM. */
  forgetName(nodeName: string, nowMs: number): void {
    if (this.#byName.delete(nodeName)) this.#forgotten.set(nodeName, nowMs);
  }

  /**
   * Takes over from the list before this one the VMs that were read by themselves and that this list lacks. Otherwise
   * two groups of callers whose VMs no list has would make each other read again and again. VMs that were found to be
   * absent since this list began are removed: its first pages may still have them. Names forgotten since stay so.
   */
  inherit(previous: VmTable<Row> | undefined, beganMs: number, nowMs: number): this {
    if (previous === undefined) return this;
    for (const [key, { atMs }] of previous.#absent) if (atMs >= beganMs) this.remove(key, atMs);
    for (const [key, expiresMs] of previous.#expiry) {
      const row = previous.get(key);
      if (row !== undefined && expiresMs > nowMs && !this.#byKey.has(key)) this.#keep(key, row, expiresMs, previous);
    }
    for (const [nodeName, atMs] of previous.#forgotten) if (atMs >= beganMs) this.forgetName(nodeName, atMs);
    return this;
  }

  /** Its name may belong to a VM of this list by now, or be forgotten. */
  #keep(key: string, row: Row, expiresMs: number, previous: VmTable<Row>): void {
    this.#byKey.set(key, row);
    this.#expiry.set(key, expiresMs);
    const isNamed = previous.getByName(row.nodeName) === row && !this.#byName.has(row.nodeName);
    if (isNamed) this.#byName.set(row.nodeName, row);
  }
}

interface FreshLookupOptions<Row> {
  readonly clock: Clock;
  /** Time for which cached readers use an individually read VM. */
  readonly ttlMs: number;
  /** Reads one VM; undefined only when ARM has answered that it does not exist. */
  readonly read: (key: string) => Promise<Row | undefined>;
  /** False for a record that proves no more than that its VM exists: cached readers do not get it. Default: true. */
  readonly isComplete?: (row: Row) => boolean;
  /** Called with the record of a VM that is deleted or being deleted: its cached network is outdated too. */
  readonly onAbsent: (known: Row | undefined) => void;
}

const maxConcurrentReads = 8;

/**
 * Reads of single VMs that are certain enough to delete a node. Lookups of one turn share one fresh list where that
 * costs fewer requests than a read of each. A list proves that a VM exists, never that it does not: it may have lost a
 * VM between two pages or have been cut short. Absence is always the answer of a read of the VM itself.
 */
export class FreshLookups<Row extends Named> {
  readonly #list: SharedRead<VmTable<Row>>;
  readonly #options: FreshLookupOptions<Row>;
  #pending = new Map<string, PromiseWithResolvers<Row | undefined>>();

  constructor(list: SharedRead<VmTable<Row>>, options: FreshLookupOptions<Row>) {
    this.#list = list;
    this.#options = options;
  }

  /** The VM as ARM has it now, by a read that begins after this call; undefined when it does not exist. */
  get(key: string): Promise<Row | undefined> {
    if (this.#pending.size === 0) setImmediate(() => void this.#answerPending());
    const pending = this.#pending.get(key) ?? Promise.withResolvers<Row | undefined>();
    this.#pending.set(key, pending);
    return pending.promise;
  }

  /**
   * The VM with that computer name. `likelyKey` is the key that the name suggests, read first. ARM has no read by
   * computer name: a VM with another key does not exist when two fresh lists lack it.
   */
  async getByName(nodeName: string, likelyKey: string | undefined): Promise<Row | undefined> {
    const likely = likelyKey === undefined ? undefined : await this.get(likelyKey);
    if (likely?.nodeName === nodeName) return likely;
    return (await this.#list.get("fresh")).getByName(nodeName) ?? (await this.#list.get("fresh")).getByName(nodeName);
  }

  async #answerPending(): Promise<void> {
    const pending = this.#pending;
    this.#pending = new Map();
    try {
      const pages = this.#list.last?.pages ?? 1;
      const table = pending.size <= pages ? undefined : await this.#list.get("fresh");
      await forEachConcurrently({ workers: maxConcurrentReads }, [...pending], async ([key, { resolve, reject }]) => {
        const listed = table?.get(key);
        await (listed === undefined ? this.#readOne(key) : Promise.resolve(this.#noted(key, listed))).then(
          resolve,
          reject,
        );
      });
    } catch (error) {
      for (const { reject } of pending.values()) reject(error);
    }
  }

  /** Cached readers share what one caller has read. */
  async #readOne(key: string): Promise<Row | undefined> {
    const { clock, ttlMs, read, isComplete = () => true } = this.#options;
    const expiresMs = clock.monotonic() + ttlMs;
    const row = this.#noted(key, await read(key));
    if (row !== undefined && !isDeleting(row) && isComplete(row)) this.#list.last?.set(key, row, expiresMs);
    return row;
  }

  /** Evicts a VM that is deleted or being deleted: a later one of the same name must not be taken for it. */
  #noted(key: string, row: Row | undefined): Row | undefined {
    const { clock, onAbsent } = this.#options;
    if (row !== undefined && !isDeleting(row)) return row;
    const table = this.#list.last;
    onAbsent(row ?? table?.get(key));
    table?.remove(key, clock.monotonic());
    return row;
  }
}
