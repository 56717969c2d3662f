import { isConflict, keyOf, type Service, type Shards } from "cloud-controller-host/sdk";

import type { ServiceEvents } from "./events.ts";
import { markOf } from "./predicates.ts";
import type { ServiceWrites } from "./service-writes.ts";

export interface ClaimParts {
  readonly shards: Shards | undefined;
  readonly events: Pick<ServiceEvents, "waiting">;
  readonly writes: Pick<ServiceWrites, "mark">;
  /** Syncs the Service again after so many milliseconds. */
  readonly again: (key: string, ms: number) => void;
}

/** Period of checks of a Service that waits for another deployment; each of its changes is a check, too. */
const waitMs = 5_000;
/** The informer shows by then what another writer has written. */
const conflictMs = 200;

/**
 * Takes a selected Service for this deployment, so that no other serves it at the same time: the mark is written on the
 * version that was seen. Resolves with the Service as it then is, or with undefined while another one serves it.
 */
export async function claim(parts: ClaimParts, service: Service): Promise<Service | undefined> {
  const { shards, events, writes, again } = parts;
  const mark = markOf(service);
  if (shards?.isAlive === undefined || mark === shards.own) return service;
  // Nothing remains that another one could serve.
  if (mark === undefined && service.metadata?.deletionTimestamp !== undefined) return service;
  if (mark !== undefined && (await shards.isAlive(mark))) {
    events.waiting(service, mark);
    again(keyOf(service), waitMs);
    return undefined;
  }
  try {
    return await writes.mark(service, shards.own);
  } catch (error) {
    if (!isConflict(error)) throw error;
    again(keyOf(service), conflictMs);
    return undefined;
  }
}
