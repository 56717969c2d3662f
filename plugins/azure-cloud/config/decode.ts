import { decode, type Decoded, type Environment } from "cloud-controller-host/sdk";

import { isKnownCloud } from "../arm/environments.ts";
import { isObject, type JsonObject } from "../json.ts";
import { type Findings, fit } from "./fit.ts";
import { chooseIdentity, type Identity } from "./identity.ts";
import { brokenRules } from "./rules.ts";
import { type ConfigKeys, configSchema } from "./schema.ts";

/** The cloud config, complete: every key has its value, and what must hold between them does. */
export interface AzureConfig extends ConfigKeys {
  readonly identity: Identity;
  /** Upstream's file of addresses for Azure Stack (`AZURE_ENVIRONMENT_FILEPATH`); empty when there is none. */
  readonly environmentFile: string;
}

/** Variables that override keys, as upstream lets them: workload identity's webhook sets them in the pod. */
const environmentKeys = {
  AZURE_TENANT_ID: "tenantId",
  AZURE_CLIENT_ID: "aadClientId",
  AZURE_CLIENT_SECRET: "aadClientSecret",
  AZURE_FEDERATED_TOKEN_FILE: "aadFederatedTokenFile",
} as const;

/**
 * Reads a cloud config, the same way from a file and from a Secret. Reports every problem at once; the values of
 * secret keys never appear in one.
 */
export function decodeConfig(document: JsonObject, environment: Environment): Decoded<AzureConfig> {
  const findings: Findings = { problems: [], unknown: [], warnings: [] };
  const fitted = fit(configSchema, document, "", findings);
  const decoded = decode(configSchema, overridden(isObject(fitted) ? fitted : {}, environment));
  if (!decoded.ok) return { ok: false, problems: [...findings.problems, ...decoded.problems] };
  const keys: ConfigKeys = { ...decoded.value, resourceGroup: decoded.value.resourceGroup.toLowerCase() };
  const { identity, problems } = chooseIdentity(keys);
  const all = [...findings.problems, ...brokenRules(keys), ...problems];
  if (all.length > 0 || identity === undefined) return { ok: false, problems: all };
  const environmentFile = environment["AZURE_ENVIRONMENT_FILEPATH"] ?? "";
  return { ok: true, value: { ...keys, identity, environmentFile }, warnings: warningsOf(findings, keys) };
}

function overridden(fitted: JsonObject, environment: Environment): JsonObject {
  const overrides: Record<string, unknown> = {};
  for (const [variable, key] of Object.entries(environmentKeys)) {
    const value = environment[variable];
    if (value === undefined || value === "") continue;
    overrides[key] = value;
    if (key === "aadFederatedTokenFile") overrides["useFederatedWorkloadIdentityExtension"] = true;
  }
  return { ...fitted, ...overrides };
}

function warningsOf(findings: Findings, keys: ConfigKeys): readonly string[] {
  const { unknown, warnings } = findings;
  const ignored = unknown.length === 0 ? [] : [`unknown keys are ignored: ${unknown.join(", ")}`];
  const limited = keys.cloudProviderRateLimit
    ? ["cloudProviderRateLimit has no effect: requests are paced by the limits that Azure itself reports"]
    : [];
  const strange =
    isKnownCloud(keys.cloud) || keys.resourceManagerEndpoint !== ""
      ? []
      : [`cloud "${keys.cloud}" is not known: AzurePublicCloud is used`];
  return [...ignored, ...warnings, ...strange, ...limited];
}
