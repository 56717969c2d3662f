import { sameName } from "../../arm/resource-id.ts";
import { oncePer } from "./once-per.ts";
import type { PlannerConfig } from "./planner-config.ts";

type NetworkType = "loadBalancers" | "publicIPAddresses" | "networkSecurityGroups" | "virtualNetworks";

const networkId = (subscription: string, group: string, type: NetworkType, name: string): string =>
  `/subscriptions/${subscription}/resourceGroups/${group}/providers/Microsoft.Network/${type}/${name}`;

export const loadBalancerId = (config: PlannerConfig, name: string): string =>
  networkId(config.networkSubscription, config.loadBalancerResourceGroup, "loadBalancers", name);

export const publicIPId = (config: PlannerConfig, group: string, name: string): string =>
  networkId(config.networkSubscription, group, "publicIPAddresses", name);

export const securityGroupId = (config: PlannerConfig): string =>
  networkId(
    config.networkSubscription,
    config.securityGroupResourceGroup,
    "networkSecurityGroups",
    config.securityGroup,
  );

/** Pools by address refer to the virtual network in the subscription of the VMs. Source: upstream `getVnetResourceID`. */
export const virtualNetworkId = (config: PlannerConfig): string =>
  networkId(
    config.computeSubscription,
    config.virtualNetwork.resourceGroup,
    "virtualNetworks",
    config.virtualNetwork.name,
  );

type ChildType = "frontendIPConfigurations" | "backendAddressPools" | "probes";

export const childId = (loadBalancer: string, type: ChildType, name: string): string =>
  `${loadBalancer}/${type}/${name}`;

export const sameId = (left: string | undefined, right: string | undefined): boolean =>
  left === right || (left !== undefined && right !== undefined && sameName(left, right));

/** Ids are a hundred characters long, and each plan looks all of them up. */
export const lowerId = oncePer(({ id = "" }: { readonly id?: string }): string => id.toLowerCase());
