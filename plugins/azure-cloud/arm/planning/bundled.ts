import { isObject } from "cloud-controller-host/sdk";

import type { JsonObject } from "../../json.ts";
import { parseArmPath } from "../resource-id.ts";

/**
 * Properties of Compute resources that decide something here, with the kept fields of those that also hold user data,
 * keys or extension settings; `true` keeps all.
 */
const kept: Shape = {
  availabilitySet: true,
  hardwareProfile: true,
  instanceView: { platformFaultDomain: true, platformUpdateDomain: true, statuses: true },
  latestModelApplied: true,
  networkProfile: true,
  networkProfileConfiguration: true,
  orchestrationMode: true,
  osProfile: { computerName: true },
  platformFaultDomainCount: true,
  provisioningState: true,
  singlePlacementGroup: true,
  virtualMachineProfile: { networkProfile: true, osProfile: { computerNamePrefix: true }, priority: true },
  virtualMachineScaleSet: true,
};

interface Shape {
  readonly [key: string]: Shape | true;
}

/** A resource for a bundle: without user data, keys, and settings of extensions. */
export function bundledResource(id: string, resource: JsonObject): JsonObject {
  const { properties } = resource;
  const isCompute = parseArmPath(id)?.provider?.toLowerCase() === "microsoft.compute";
  // Interfaces below a scale set belong to the network, whatever their id says.
  const isInterface = /\/(?:networkinterfaces|publicipaddresses)\//iu.test(id);
  if (!isCompute || isInterface || !isObject(properties)) return resource;
  const { identity: _identity, resources: _resources, plan: _plan, ...rest } = resource;
  return { ...rest, properties: shaped(properties, kept) };
}

const shaped = (from: JsonObject, shape: Shape): JsonObject =>
  Object.fromEntries(
    Object.entries(from).flatMap(([key, value]): readonly [string, unknown][] => {
      const inner = shape[key];
      if (inner === undefined) return [];
      return [[key, inner !== true && isObject(value) ? shaped(value, inner) : value]];
    }),
  );
