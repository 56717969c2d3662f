import type { AzureConfig } from "./decode.ts";

/** Keys that decide where resources are, what they are called and which VMs belong to them. */
export const placementKeys = [
  "loadBalancerName",
  "loadBalancerResourceGroup",
  "loadBalancerSku",
  "multipleStandardLoadBalancerConfigurations",
  "networkResourceSubscriptionID",
  "primaryAvailabilitySetName",
  "primaryScaleSetName",
  "resourceGroup",
  "routeTableName",
  "routeTableResourceGroup",
  "securityGroupName",
  "securityGroupResourceGroup",
  "subscriptionId",
  "vmType",
] as const satisfies readonly (keyof AzureConfig)[];

export const placementOf = (config: AzureConfig): unknown => placementKeys.map((key) => config[key] ?? "");
