import { annotationOf, type Lease, parseLabelSelector } from "cloud-controller-host/sdk";

import { loadBalancerClassProblem, shardProblem } from "../../config/flags/checks.ts";
import { recordOf } from "./record.ts";

/** Annotation of a main lock's Lease: what its holder serves, for other shards. */
export const announcementKey = "cloud-controller-host/serves";

/** The Services that a process serves. */
export interface Served {
  /** Empty without `--shard`. */
  readonly shard: string;
  /** False where the service controller is off: it then serves none. */
  readonly services: boolean;
  readonly loadBalancerClass: string;
  readonly serviceSelector: string;
}

/** `holder` binds it to one tenure: another program that takes the Lease over keeps its annotations. */
export const announcementBy = (holder: string, served: Served): string => JSON.stringify({ holder, ...served });

/**
 * The announcement of a Lease's holder or, without one, of its last holder. Undefined if the Lease has none, or one that
 * no host writes.
 */
export function announcedBy(lease: Lease): Served | undefined {
  const { holderIdentity } = recordOf(lease);
  const { holder, shard, services, loadBalancerClass, serviceSelector } = parsed(annotationOf(lease, announcementKey));
  if (typeof holder !== "string" || (holderIdentity !== "" && holder !== holderIdentity)) return undefined;
  if (typeof shard !== "string" || typeof loadBalancerClass !== "string" || typeof serviceSelector !== "string")
    return undefined;
  if (shardProblem(shard) !== undefined || loadBalancerClassProblem(loadBalancerClass) !== undefined) return undefined;
  if (!isSelector(serviceSelector)) return undefined;
  return { shard, services: services !== false, loadBalancerClass, serviceSelector };
}

function parsed(text = ""): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? Object.fromEntries(Object.entries(value)) : {};
  } catch {
    return {};
  }
}

function isSelector(text: string): boolean {
  try {
    parseLabelSelector(text);
    return true;
  } catch {
    return false;
  }
}
