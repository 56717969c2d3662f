import { sameName } from "../../arm/resource-id.ts";
import { type JsonObject, objectsAt, stringAt } from "../../json.ts";
import { ArmFault } from "../faults.ts";
import type { Draft, Resource } from "../state/store.ts";
import type { SubscriptionState } from "../state/subscription-state.ts";
import { checkSecurityPrefixes } from "./limit-checks.ts";
import { usersOfSubnet } from "./private-addresses.ts";
import { checkNames, hasId, idAt, nameOf, propertiesOf, without } from "./references.ts";
import type { ResourceType, WriteContext } from "./resource-rules.ts";

const badRequest = (code: string, message: string): ArmFault => new ArmFault(400, code, message);

const subnetsOf = (network: { readonly properties: JsonObject } | undefined): readonly JsonObject[] =>
  objectsAt(network?.properties, "subnets");

const idOf = (item: JsonObject): string => stringAt(item, "id") ?? "";

function checkSubnetsUnused(subnets: readonly JsonObject[], state: SubscriptionState): void {
  for (const subnet of subnets) {
    const [user] = usersOfSubnet(state, idOf(subnet));
    if (user !== undefined)
      throw badRequest(
        "InUseSubnetCannotBeDeleted",
        `Subnet ${nameOf(subnet)} is in use by ${user} and cannot be deleted. In order to delete the subnet, delete all the resources within the subnet. See aka.ms/deletesubnet.`,
      );
  }
}

/** Every subnet of the subscription that refers to a resource, such as its route table. */
function subnetsUsing(state: SubscriptionState, field: string, id: string): readonly string[] {
  return state.store
    .listType(state.subscription, "microsoft.network/virtualnetworks")
    .flatMap(subnetsOf)
    .filter((subnet) => sameName(idAt(propertiesOf(subnet), field) ?? "", id))
    .map(idOf);
}

const withSubnets =
  (field: string) =>
  (resource: Resource, state: SubscriptionState): Resource => {
    const subnets = subnetsUsing(state, field, resource.id).map((id) => ({ id }));
    return subnets.length === 0 ? resource : { ...resource, properties: { ...resource.properties, subnets } };
  };

const unusedBySubnets =
  (field: string, what: string, code: string) =>
  ({ id }: Resource, state: SubscriptionState): void => {
    const [user] = subnetsUsing(state, field, id);
    if (user !== undefined)
      throw badRequest(
        code,
        `${what} ${id} cannot be deleted because it is in use by the following resources: ${user}.`,
      );
  };

/** IP configurations are shown by what has them. */
const ipConfigurations = ["ipConfigurations"];

export const virtualNetworks: ResourceType = {
  type: "Microsoft.Network/virtualNetworks",
  children: ["subnets"],
  prepare(draft, { previous, state, seeding }) {
    const kept = subnetsOf(draft).map(idOf);
    if (!seeding)
      checkSubnetsUnused(
        subnetsOf(previous).filter((subnet) => !hasId(kept, idOf(subnet))),
        state,
      );
    const subnets = subnetsOf(draft).map((subnet) => ({
      ...subnet,
      properties: {
        privateEndpointNetworkPolicies: "Disabled",
        privateLinkServiceNetworkPolicies: "Enabled",
        ...without(propertiesOf(subnet), ipConfigurations),
      },
    }));
    return { ...draft, properties: { ...draft.properties, subnets } };
  },
  view(network, state) {
    const subnets = subnetsOf(network).map((subnet) => {
      const users = usersOfSubnet(state, idOf(subnet));
      if (users.length === 0) return subnet;
      return { ...subnet, properties: { ...propertiesOf(subnet), ipConfigurations: users.map((id) => ({ id })) } };
    });
    return { ...network, properties: { ...network.properties, subnets } };
  },
  checkRemoval: (network, state) => checkSubnetsUnused(subnetsOf(network), state),
};

/** A rule's name is its own, and its priority in each direction. */
function checkSecurityRules(draft: Draft, { id, state }: WriteContext): void {
  const rules = objectsAt(draft.properties, "securityRules");
  if (rules.length > state.limits.securityRules)
    throw badRequest(
      "SecurityRuleCountLimitReached",
      `Cannot have more than ${state.limits.securityRules} rules in network security group ${id}.`,
    );
  checkNames(rules, id);
  const taken = new Map<string, string>();
  for (const rule of rules) {
    const properties = propertiesOf(rule);
    const priority = properties["priority"];
    if (typeof priority !== "number" || priority < 100 || priority > 4096)
      throw badRequest(
        "SecurityRuleInvalidPriority",
        `Security rule ${nameOf(rule)} has invalid priority. Value provided: ${String(priority)} Allowed range 100-4096.`,
      );
    const key = `${stringAt(properties, "direction")} ${priority}`.toLowerCase();
    const other = taken.get(key);
    if (other !== undefined)
      throw badRequest(
        "SecurityRuleConflict",
        `Security rule ${nameOf(rule)} conflicts with rule ${other}. Rules cannot have the same Priority and Direction.`,
      );
    taken.set(key, nameOf(rule));
  }
}

/** Name, priority, direction, access, source and destination of the rules that every group has. */
const defaultRules = [
  ["AllowVnetInBound", 65_000, "Inbound", "Allow", "VirtualNetwork", "VirtualNetwork"],
  ["AllowAzureLoadBalancerInBound", 65_001, "Inbound", "Allow", "AzureLoadBalancer", "*"],
  ["DenyAllInBound", 65_500, "Inbound", "Deny", "*", "*"],
  ["AllowVnetOutBound", 65_000, "Outbound", "Allow", "VirtualNetwork", "VirtualNetwork"],
  ["AllowInternetOutBound", 65_001, "Outbound", "Allow", "*", "Internet"],
  ["DenyAllOutBound", 65_500, "Outbound", "Deny", "*", "*"],
] as const;

const defaultRulesOf = (groupId: string): readonly JsonObject[] =>
  defaultRules.map(([name, priority, direction, access, sourceAddressPrefix, destinationAddressPrefix]) => ({
    id: `${groupId}/defaultSecurityRules/${name}`,
    name,
    properties: {
      provisioningState: "Succeeded",
      priority,
      direction,
      access,
      protocol: "*",
      sourceAddressPrefix,
      sourcePortRange: "*",
      destinationAddressPrefix,
      destinationPortRange: "*",
    },
  }));

export const networkSecurityGroups: ResourceType = {
  type: "Microsoft.Network/networkSecurityGroups",
  children: ["securityRules"],
  prepare(draft, context) {
    if (!context.seeding) checkSecurityRules(draft, context);
    if (!context.seeding) checkSecurityPrefixes(draft, context);
    return {
      ...draft,
      properties: without(draft.properties, ["subnets", "networkInterfaces", "defaultSecurityRules"]),
    };
  },
  view(group, state) {
    const shown = withSubnets("networkSecurityGroup")(group, state);
    return { ...shown, properties: { ...shown.properties, defaultSecurityRules: defaultRulesOf(group.id) } };
  },
  checkRemoval: unusedBySubnets(
    "networkSecurityGroup",
    "Network security group",
    "InUseNetworkSecurityGroupCannotBeDeleted",
  ),
};

function checkRoutes(draft: Draft, { id, state }: WriteContext): void {
  const routes = objectsAt(draft.properties, "routes");
  if (routes.length > state.limits.routes)
    throw badRequest(
      "RouteCountLimitReached",
      `Route table ${id} cannot have more than ${state.limits.routes} routes.`,
    );
  const taken = new Map<string, string>();
  for (const route of routes) {
    const prefix = stringAt(propertiesOf(route), "addressPrefix") ?? "";
    const other = taken.get(prefix.toLowerCase());
    if (other !== undefined)
      throw badRequest(
        "RouteConflict",
        `Route ${nameOf(route)} conflicts with route ${other}. Routes cannot have the same AddressPrefix.`,
      );
    taken.set(prefix.toLowerCase(), nameOf(route));
  }
}

export const routeTables: ResourceType = {
  type: "Microsoft.Network/routeTables",
  children: ["routes"],
  prepare(draft, context) {
    if (!context.seeding) checkRoutes(draft, context);
    return { ...draft, properties: without(draft.properties, ["subnets"]) };
  },
  view: withSubnets("routeTable"),
  checkRemoval: unusedBySubnets("routeTable", "Route table", "InUseRouteTableCannotBeDeleted"),
};
