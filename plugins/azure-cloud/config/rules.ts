import { groupPattern, namePattern } from "../resource-names.ts";
import { maxDrainSeconds } from "./schema-cluster.ts";
import type { ConfigKeys } from "./schema.ts";

/** A constraint between keys; returns its violations. Source: upstream `InitializeCloudFromConfig`. */
type Rule = (keys: ConfigKeys) => readonly string[];

const required: Rule = (keys) =>
  (["subscriptionId", "resourceGroup", "location"] as const).flatMap((key) =>
    keys[key] === "" ? [`${key} is required`] : [],
  );

const availabilitySets: Rule = (keys) =>
  keys.disableAvailabilitySetNodes && keys.vmType !== "vmss"
    ? [`disableAvailabilitySetNodes requires vmType vmss, got ${keys.vmType}`]
    : [];

const outbound: Rule = (keys) =>
  keys.disableOutboundSNAT && keys.loadBalancerSku !== "standard"
    ? [`disableOutboundSNAT requires loadBalancerSku standard, got ${keys.loadBalancerSku}`]
    : [];

const serviceGateway: Rule = (keys) => {
  const parts = {
    serviceGatewayEnabled: keys.serviceGatewayEnabled,
    "loadBalancerSku service": keys.loadBalancerSku === "service",
    "loadBalancerBackendPoolConfigurationType podIP": keys.loadBalancerBackendPoolConfigurationType === "podIP",
  };
  const missing = Object.entries(parts).flatMap(([part, set]) => (set ? [] : [part]));
  if (missing.length === 3) return [];
  const problems = missing.length === 0 ? [] : [`service gateway mode also requires ${missing.join(" and ")}`];
  if (keys.multipleStandardLoadBalancerConfigurations?.length)
    problems.push("multipleStandardLoadBalancerConfigurations cannot be used in service gateway mode");
  if (keys.enableMigrateToIPBasedBackendPoolAPI)
    problems.push("enableMigrateToIPBasedBackendPoolAPI cannot be used in service gateway mode");
  return problems;
};

const severalLoadBalancers: Rule = (keys) => {
  const configurations = keys.multipleStandardLoadBalancerConfigurations ?? [];
  if (configurations.length === 0) return [];
  const list = "multipleStandardLoadBalancerConfigurations";
  const problems: string[] = [];
  if (keys.loadBalancerBackendPoolConfigurationType === "nodeIPConfiguration")
    problems.push(`${list} requires loadBalancerBackendPoolConfigurationType nodeIP, got nodeIPConfiguration`);
  for (const key of ["name", "primaryVMSet"] as const) {
    const seen = new Set<string>();
    for (const [index, configuration] of configurations.entries()) {
      const value = configuration[key];
      if (value === "") problems.push(`${list}[${index}].${key} is required`);
      else if (seen.has(value.toLowerCase()))
        problems.push(`${list}[${index}].${key} "${value}" is set more than once`);
      seen.add(value.toLowerCase());
    }
  }
  return problems;
};

const drain: Rule = ({ loadBalancerDrainTimeInSeconds: time, loadBalancerBackendPoolConfigurationType: pools }) => [
  ...(time > maxDrainSeconds ? [`loadBalancerDrainTimeInSeconds is at most ${maxDrainSeconds}, got ${time}`] : []),
  ...(time > 0 && pools !== "nodeIP"
    ? [`loadBalancerDrainTimeInSeconds requires loadBalancerBackendPoolConfigurationType nodeIP, got ${pools}`]
    : []),
];

const groupKeys = [
  "resourceGroup",
  "vnetResourceGroup",
  "securityGroupResourceGroup",
  "routeTableResourceGroup",
  "loadBalancerResourceGroup",
  "privateLinkServiceResourceGroup",
] as const;
const nameKeys = [
  "subscriptionId",
  "networkResourceSubscriptionID",
  "vnetName",
  "subnetName",
  "securityGroupName",
  "routeTableName",
  "loadBalancerName",
] as const;

/** Names that become segments of a path. */
const names: Rule = (keys) => {
  const several = keys.multipleStandardLoadBalancerConfigurations ?? [];
  const list = "multipleStandardLoadBalancerConfigurations";
  const given: readonly (readonly [key: string, value: string, pattern: RegExp])[] = [
    ...groupKeys.map((key) => [key, keys[key], groupPattern] as const),
    ...nameKeys.map((key) => [key, keys[key], namePattern] as const),
    ...several.map(({ name }, index) => [`${list}[${index}].name`, name, namePattern] as const),
  ];
  return given.flatMap(([key, value, pattern]) =>
    value === "" || pattern.test(value) ? [] : [`${key}: ${JSON.stringify(value)} is not a valid name in Azure`],
  );
};

const rules: readonly Rule[] = [
  required,
  names,
  availabilitySets,
  outbound,
  serviceGateway,
  severalLoadBalancers,
  drain,
];

export const brokenRules = (keys: ConfigKeys): readonly string[] => rules.flatMap((rule) => rule(keys));
