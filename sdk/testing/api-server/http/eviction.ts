import { kinds } from "cloud-controller-host/sdk";

import { StatusError } from "../access/status.ts";
import { type ApiObject, isObject, type JsonObject, objectAt, ownMember } from "../json.ts";
import type { Cluster } from "../registry/cluster.ts";
import type { Preconditions } from "../registry/registry.ts";
import { eviction } from "../schema/requests.ts";
import { readObject } from "./body.ts";
import { jsonReply } from "./replies.ts";
import type { Target } from "./target.ts";

/**
 * Deletes a Pod unless a disruption budget protects it; budgets are considered where a plugin declares their kind. Source:
 * Kubernetes `registry/core/pod/storage.EvictionREST`.
 */
export async function evict(
  cluster: Cluster,
  { request, target }: { readonly request: Request; readonly target: Target },
  isDryRun: (options: JsonObject) => boolean,
): Promise<Response> {
  const { deleteOptions } = await readObject(request, eviction);
  const options = isObject(deleteOptions) ? deleteOptions : {};
  if (isProtected(cluster, target.registry.get(target).object)) {
    const message = "Cannot evict pod as it would violate the pod's disruption budget.";
    throw new StatusError(429, "TooManyRequests", message);
  }
  target.registry.delete(target, preconditionsOf(options), { dryRun: isDryRun(options) });
  return jsonReply({ kind: "Status", apiVersion: "v1", metadata: {}, status: "Success" }, 201);
}

/** True when a budget that selects the Pod by its labels allows no disruption. */
function isProtected(cluster: Cluster, pod: ApiObject): boolean {
  if (!cluster.serves(kinds.PodDisruptionBudget)) return false;
  const labels = objectAt(objectAt(pod, "metadata"), "labels");
  const budgets = cluster.registryOf(kinds.PodDisruptionBudget).collection.list(pod.metadata.namespace ?? "");
  return budgets.some(({ object }) => {
    const selected = Object.entries(objectAt(objectAt(objectAt(object, "spec"), "selector"), "matchLabels"));
    const isSelected = selected.every(([name, value]) => ownMember(labels, name) === value);
    return isSelected && objectAt(object, "status")["disruptionsAllowed"] === 0;
  });
}

/** The preconditions of a `DeleteOptions`. */
export function preconditionsOf({ preconditions }: JsonObject): Preconditions {
  if (!isObject(preconditions)) return {};
  const { uid, resourceVersion } = preconditions;
  return {
    uid: typeof uid === "string" ? uid : undefined,
    resourceVersion: typeof resourceVersion === "string" ? resourceVersion : undefined,
  };
}
