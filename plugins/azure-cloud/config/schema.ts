import { type Static, Type } from "cloud-controller-host/sdk";

import { armKeys, authKeys, cacheKeys, rateLimitKeys } from "./schema-arm.ts";
import { featureKeys, machineKeys, placeKeys } from "./schema-cluster.ts";

/**
 * Every key of the cloud config with its default and its meaning: the parser, the reference page and the tests are
 * made from this table. Source: cloud-provider-azure `pkg/provider/config`; `resourceManagerCAFile` is ours.
 */
export const configSchema = Type.Object(
  { ...armKeys, ...authKeys, ...placeKeys, ...machineKeys, ...featureKeys, ...cacheKeys, ...rateLimitKeys },
  { description: "Azure cloud config" },
);

export type ConfigKeys = Static<typeof configSchema>;
