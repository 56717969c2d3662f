import { type Static, Type } from "cloud-controller-host/sdk";

import { armKeys, authKeys, cacheKeys, rateLimitKeys } from "./schema-arm.ts";
import { featureKeys, resourceKeys, vmKeys } from "./schema-cluster.ts";

/**
 * Every key of the cloud config with its default and description, by section. The decoder, its defaults, CONFIG.md and
 * the tests are derived from this table. Source: cloud-provider-azure `pkg/provider/config`; the README lists the keys
 * that are ours.
 */
export const configSections = {
  "Azure Resource Manager": armKeys,
  Identity: authKeys,
  "Cluster resources": resourceKeys,
  VMs: vmKeys,
  "Load balancers and routes": featureKeys,
  Caches: cacheKeys,
  "Rate limits": rateLimitKeys,
} as const;

export const configSchema = Type.Object(
  { ...armKeys, ...authKeys, ...resourceKeys, ...vmKeys, ...featureKeys, ...cacheKeys, ...rateLimitKeys },
  { description: "Azure cloud config" },
);

export type ConfigKeys = Static<typeof configSchema>;
