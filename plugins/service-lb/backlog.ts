import type { WorkQueue } from "cloud-controller-host/sdk";

/**
 * The service queue, and the Services that have a full sync pending: queued, or waiting for a backoff to end. A full
 * sync uses the newest nodes, so a node sync skips these; a resync does not shorten their backoff.
 */
export interface Backlog {
  isPending(key: string): boolean;
  add(key: string): void;
  readonly addAfter: (key: string, delayMs: number) => void;
  /** A full sync starts; changes from now on make another one pending. */
  started(key: string): void;
  /** The full sync failed; the queue holds the key again. */
  failed(key: string): void;
}

export function backlogOf(queue: WorkQueue): Backlog {
  const pending = new Set<string>();
  return {
    isPending: (key) => pending.has(key),
    add(key) {
      pending.add(key);
      queue.add(key);
    },
    addAfter(key, delayMs) {
      pending.add(key);
      queue.addAfter(key, delayMs);
    },
    started: (key) => void pending.delete(key),
    failed: (key) => void pending.add(key),
  };
}
