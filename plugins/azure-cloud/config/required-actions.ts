import type { AzureConfig } from "./decode.ts";

/** The resource group that an action applies to, by the config key that names it; of nodes and public IPs, `resourceGroup`. */
type Scope =
  | "nodes"
  | "loadBalancerResourceGroup"
  | "publicIPs"
  | "securityGroupResourceGroup"
  | "routeTableResourceGroup"
  | "vnetResourceGroup"
  | "privateLinkServiceResourceGroup";

const compute = "Microsoft.Compute";
const network = "Microsoft.Network";

/** ARM actions that controllers need, by scope. Source: the RBAC actions of upstream's clients. */
const actionsByScope: Readonly<Record<Scope, readonly string[]>> = {
  nodes: [
    `${compute}/virtualMachineScaleSets/read`,
    `${compute}/virtualMachineScaleSets/write`,
    `${compute}/virtualMachineScaleSets/virtualMachines/read`,
    `${compute}/virtualMachineScaleSets/virtualMachines/write`,
    `${compute}/virtualMachineScaleSets/networkInterfaces/read`,
    `${compute}/virtualMachineScaleSets/publicIPAddresses/read`,
    `${compute}/virtualMachines/read`,
    `${compute}/availabilitySets/read`,
    `${network}/networkInterfaces/read`,
    `${network}/networkInterfaces/write`,
  ],
  loadBalancerResourceGroup: [
    ...["read", "write", "delete"].map((verb) => `${network}/loadBalancers/${verb}`),
    ...["read", "write", "delete", "join/action"].map((verb) => `${network}/loadBalancers/backendAddressPools/${verb}`),
  ],
  publicIPs: [
    ...["read", "write", "delete", "join/action"].map((verb) => `${network}/publicIPAddresses/${verb}`),
    `${network}/publicIPPrefixes/join/action`,
  ],
  securityGroupResourceGroup: ["read", "write", "join/action"].map(
    (verb) => `${network}/networkSecurityGroups/${verb}`,
  ),
  routeTableResourceGroup: ["read", "write"].map((verb) => `${network}/routeTables/${verb}`),
  vnetResourceGroup: [
    `${network}/virtualNetworks/read`,
    ...["read", "write", "join/action"].map((verb) => `${network}/virtualNetworks/subnets/${verb}`),
  ],
  privateLinkServiceResourceGroup: [
    ...["read", "write", "delete"].map((verb) => `${network}/privateLinkServices/${verb}`),
    `${network}/privateLinkServices/privateEndpointConnections/delete`,
  ],
};

export interface ActionScope {
  readonly subscription: string;
  readonly resourceGroup: string;
  /** Of the network subscription, whose tenant may be another one. */
  readonly network: boolean;
  readonly actions: readonly string[];
}

/** The actions to check, one entry per resource group. */
export function requiredActions(config: AzureConfig): readonly ActionScope[] {
  const networkSubscription = config.networkResourceSubscriptionID || config.subscriptionId;
  const isOneSubscription = networkSubscription === config.subscriptionId;
  const scopes = new Map<string, ActionScope>();
  for (const [scope, actions] of Object.entries(actionsByScope)) {
    // Private link services are in the subscription of the instances.
    const isNetwork = scope !== "nodes" && (isOneSubscription || scope !== "privateLinkServiceResourceGroup");
    const subscription = isNetwork ? networkSubscription : config.subscriptionId;
    const resourceGroup = resourceGroupOf(config, scope) || config.resourceGroup;
    const key = `${isNetwork} ${subscription}/${resourceGroup}`.toLowerCase();
    const known = scopes.get(key)?.actions ?? [];
    scopes.set(key, { subscription, resourceGroup, network: isNetwork, actions: [...known, ...actions] });
  }
  return [...scopes.values()];
}

function resourceGroupOf(config: AzureConfig, key: string): string {
  const value: unknown = Object.entries(config).find(([name]) => name === key)?.[1];
  return typeof value === "string" ? value : "";
}

/** The `actions` and `notActions` of one role assignment, as ARM's permissions API returns them. */
export interface Grant {
  readonly actions: readonly string[];
  readonly notActions: readonly string[];
}

/** True when a role grants the action; `*` stands for any text, and case does not matter. */
export const isGranted = (grants: readonly Grant[], action: string): boolean =>
  grants.some(
    ({ actions, notActions }) =>
      actions.some((pattern) => matches(pattern, action)) && !notActions.some((pattern) => matches(pattern, action)),
  );

const matches = (pattern: string, action: string): boolean =>
  new RegExp(
    `^${pattern
      .split("*")
      .map((part) => RegExp.escape(part))
      .join(".*")}$`,
    "iu",
  ).test(action);
