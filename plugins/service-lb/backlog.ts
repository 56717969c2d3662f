import type { WorkQueue } from "cloud-controller-host/sdk";

/**
 * The service queue, and which Services it owes a full sync: those queued, and those that wait out a backoff. A full
 * sync takes the newest nodes, so a node sync leaves these alone; a resync does not hurry them past their backoff.
 */
export interface Backlog {
  owes(key: string): boolean;
  add(key: string): void;
  addAfter(key: string, delayMs: number): void;
  /** The full sync begins; what comes in from now on is owed again. */
  begun(key: string): void;
  /** The full sync failed, and the queue has the key again. */
  failed(key: string): void;
}

export function backlogOf(queue: WorkQueue): Backlog {
  const owed = new Set<string>();
  return {
    owes: (key) => owed.has(key),
    add(key) {
      owed.add(key);
      queue.add(key);
    },
    addAfter(key, delayMs) {
      owed.add(key);
      queue.addAfter(key, delayMs);
    },
    begun: (key) => void owed.delete(key),
    failed: (key) => void owed.add(key),
  };
}
