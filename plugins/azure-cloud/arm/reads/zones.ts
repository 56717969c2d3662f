import { isObject } from "cloud-controller-host/sdk";

import { type JsonObject, objectsAt, parseJson, stringAt, stringsAt } from "../../json.ts";
import type { ArmClients } from "../clients.ts";

/**
 * Availability zones of a region for virtual machines, from the provider's own description; empty where the region has
 * none. Source: upstream's region-zone map.
 */
export async function readZones({ compute, environment, computeSubscription }: ArmClients, location: string) {
  const { createDefaultHttpClient, createPipelineRequest } = await import("@azure/core-rest-pipeline");
  const base = environment.resourceManager.replace(/\/$/u, "");
  const url = `${base}/subscriptions/${computeSubscription}/providers/Microsoft.Compute?api-version=2021-04-01`;
  // The pipeline sends by its own client, whichever it is given.
  const response = await compute.pipeline.sendRequest(createDefaultHttpClient(), createPipelineRequest({ url }));
  const body = parseJson(response.bodyAsText ?? "");
  return isObject(body) ? zonesIn(body, location) : [];
}

const plain = (location: string): string => location.toLowerCase().replaceAll(" ", "");

function zonesIn(provider: JsonObject, location: string): readonly string[] {
  const type = objectsAt(provider, "resourceTypes").find(
    (one) => stringAt(one, "resourceType")?.toLowerCase() === "virtualmachines",
  );
  const mapping = objectsAt(type, "zoneMappings").find(
    (one) => plain(stringAt(one, "location") ?? "") === plain(location),
  );
  return stringsAt(mapping, "zones").toSorted();
}
