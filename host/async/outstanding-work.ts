import type { Clock } from "cloud-controller-host/sdk";

/** `run` is a controller or a cloud at work; the others come before it or after it. */
export type WorkKind = "import" | "prepare" | "create" | "init" | "sync" | "run" | "dispose";

/** Work of a plugin that was started and has not settled. */
export interface OutstandingEntry {
  readonly kind: WorkKind;
  /** For people, e.g. `init of greeter-controller`. */
  readonly name: string;
  /** When it was started, milliseconds since 1970. */
  readonly since: number;
}

/**
 * Ledger of all plugin work of the process, from its start until it settles, however long ago the wait for it was given up.
 * The leader election lease is released only while this is empty.
 */
export class OutstandingWork {
  readonly #clock: Clock;
  readonly #entries = new Map<OutstandingEntry, Promise<unknown>>();
  readonly #waiters = new Set<() => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get entries(): readonly OutstandingEntry[] {
    return [...this.#entries.keys()];
  }

  /** Adds an entry that stays until `work` settles, in whichever way. */
  add(kind: WorkKind, name: string, work: Promise<unknown>): void {
    const entry: OutstandingEntry = { kind, name, since: this.#clock.now() };
    this.#entries.set(entry, work);
    const settled = (): void => {
      this.#entries.delete(entry);
      if (this.#entries.size === 0) for (const waiter of this.#waiters) waiter();
    };
    void work.then(settled, settled);
  }

  /** Resolves when everything that is outstanding under this name now has settled. */
  async returned(name: string): Promise<void> {
    await Promise.allSettled([...this.#entries].flatMap(([entry, work]) => (entry.name === name ? [work] : [])));
  }

  /** Waits at most `ms` for the ledger to be empty; returns the entries that are left. */
  async settled(ms: number): Promise<readonly OutstandingEntry[]> {
    const empty = new AbortController();
    const notify = (): void => empty.abort();
    this.#waiters.add(notify);
    if (this.#entries.size > 0) await this.#clock.sleep(ms, empty.signal);
    this.#waiters.delete(notify);
    return this.entries;
  }
}
