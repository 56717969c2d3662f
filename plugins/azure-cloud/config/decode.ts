import { decode, type Decoded, type Environment, isObject } from "cloud-controller-host/sdk";

import type { JsonObject } from "../json.ts";
import { isKnownCloud } from "./environments.ts";
import { chooseIdentity, type Identity, isCrossTenant } from "./identity.ts";
import { type Diagnostics, normalize } from "./normalize.ts";
import { brokenRules } from "./rules.ts";
import { type ConfigKeys, configSchema } from "./schema.ts";

/** A valid cloud config with all defaults applied. */
export interface AzureConfig extends ConfigKeys {
  readonly identity: Identity;
  /** Upstream's file of endpoints for Azure Stack (`AZURE_ENVIRONMENT_FILEPATH`); empty: none. */
  readonly environmentFile: string;
}

/** Environment variables that override keys, as upstream; the webhook of workload identity sets them in the pod. */
const environmentKeys = {
  AZURE_TENANT_ID: "tenantId",
  AZURE_CLIENT_ID: "aadClientId",
  AZURE_CLIENT_SECRET: "aadClientSecret",
  AZURE_FEDERATED_TOKEN_FILE: "aadFederatedTokenFile",
} as const;

/**
 * Decodes a cloud config, in the same way from a file and from a Secret. Reports all problems at once; they never show
 * the value of a secret key.
 */
export function decodeConfig(document: JsonObject, environment: Environment): Decoded<AzureConfig> {
  const diagnostics: Diagnostics = { problems: [], refused: [], unknown: [], warnings: [] };
  const normalized = normalize(configSchema, document, "", diagnostics);
  const decoded = decode(configSchema, withEnvironment(isObject(normalized) ? normalized : {}, environment));
  if (!decoded.ok) {
    const warnings = documentWarnings(diagnostics);
    return { ok: false, problems: [...diagnostics.problems, ...decoded.problems], warnings };
  }
  const keys: ConfigKeys = { ...decoded.value, resourceGroup: decoded.value.resourceGroup.toLowerCase() };
  const { identity, problems } = chooseIdentity(keys);
  const others = [...brokenRules(keys), ...problems].filter((problem) => !concernsAny(diagnostics.refused, problem));
  const all = [...diagnostics.problems, ...others];
  const warnings = [...documentWarnings(diagnostics), ...keyWarnings(keys, identity)];
  if (all.length > 0 || identity === undefined) return { ok: false, problems: all, warnings };
  const environmentFile = environment["AZURE_ENVIRONMENT_FILEPATH"] ?? "";
  return { ok: true, value: { ...keys, identity, environmentFile }, warnings };
}

/**
 * True for a problem about a key whose value is refused: the default in its place is not what the config says. What a
 * problem quotes is a value.
 */
const concernsAny = (refused: readonly string[], problem: string): boolean =>
  refused.some((path) => problem.replaceAll(/"[^"]*"/gu, "").includes(path));

function withEnvironment(normalized: JsonObject, environment: Environment): JsonObject {
  const overrides: Record<string, unknown> = {};
  for (const [variable, key] of Object.entries(environmentKeys)) {
    const value = environment[variable];
    if (value === undefined || value === "") continue;
    overrides[key] = value;
    if (key === "aadFederatedTokenFile") overrides["useFederatedWorkloadIdentityExtension"] = true;
  }
  return { ...normalized, ...overrides };
}

function documentWarnings({ unknown, warnings }: Diagnostics): readonly string[] {
  return [...(unknown.length === 0 ? [] : [`unknown keys are ignored: ${unknown.join(", ")}`]), ...warnings];
}

function keyWarnings(keys: ConfigKeys, identity: Identity | undefined): readonly string[] {
  const withoutEffect = [
    ...(keys.cloudProviderRateLimit
      ? ["cloudProviderRateLimit has no effect: requests are paced by the limits that Azure reports"]
      : []),
    ...(keys.enableMigrateToIPBasedBackendPoolAPI
      ? [
          "enableMigrateToIPBasedBackendPoolAPI has no effect: the interfaces leave a pool before the addresses join it, and its Services have no backends in between",
        ]
      : []),
    ...(identity?.kind === "workload-identity" && isCrossTenant(keys)
      ? [
          "networkResourceTenantID has no effect with workload identity: requests for network resources carry a token of tenantId; use a service principal",
        ]
      : []),
  ];
  const unknownCloud =
    isKnownCloud(keys.cloud) || keys.resourceManagerEndpoint !== ""
      ? []
      : [`cloud "${keys.cloud}" is unknown; using AzurePublicCloud`];
  return [...unknownCloud, ...withoutEffect, ...(keys.loadBalancerSku === "basic" ? [retired] : [])];
}

const retired =
  "loadBalancerSku basic: Azure retired Basic load balancers on 30 September 2025; set loadBalancerSku standard, which replaces each load balancer by a standard one with new public IPs, except those that users created, which must be upgraded first";

/** Keys that decide where resources are, what they are called, which VMs belong to them and how. */
export const placementKeys = [
  "cloud",
  "loadBalancerBackendPoolConfigurationType",
  "loadBalancerName",
  "loadBalancerResourceGroup",
  "loadBalancerSku",
  "multipleStandardLoadBalancerConfigurations",
  "networkResourceSubscriptionID",
  "primaryAvailabilitySetName",
  "primaryScaleSetName",
  "privateLinkServiceResourceGroup",
  "resourceGroup",
  "resourceManagerEndpoint",
  "routeTableName",
  "routeTableResourceGroup",
  "securityGroupName",
  "securityGroupResourceGroup",
  "subscriptionId",
  "vmType",
] as const satisfies readonly (keyof AzureConfig)[];

/** Equal for two configs with which resources are in the same places. */
export const placementOf = (config: AzureConfig): unknown => placementKeys.map((key) => config[key] ?? "");
