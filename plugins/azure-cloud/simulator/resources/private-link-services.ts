import { sameName } from "../../arm/resource-id.ts";
import { type JsonObject, objectsAt, stringAt } from "../../json.ts";
import { ArmFault } from "../faults.ts";
import type { Draft, Resource } from "../state/store.ts";
import type { SubscriptionState } from "../state/subscription-state.ts";
import { checkPrivateLinks } from "./limit-checks.ts";
import { PrivateAddresses, versionAt } from "./private-addresses.ts";
import { hasId, idAt, idsAt, invalidReference, nameOf, parentId, propertiesOf } from "./references.ts";
import type { ResourceType, WriteContext } from "./resource-rules.ts";

const frontendsOf = (service: { readonly properties: JsonObject } | undefined): readonly string[] =>
  idsAt(service?.properties, "loadBalancerFrontendIpConfigurations");

function checkReferences(draft: Draft, { id, state }: WriteContext): void {
  for (const frontend of frontendsOf(draft)) {
    const loadBalancer = state.store.get(parentId(frontend));
    const known = objectsAt(loadBalancer?.properties, "frontendIPConfigurations");
    if (
      !hasId(
        known.map((item) => stringAt(item, "id") ?? ""),
        frontend,
      )
    )
      throw invalidReference(frontend, id);
  }
  for (const item of objectsAt(draft.properties, "ipConfigurations")) {
    const subnetId = idAt(propertiesOf(item), "subnet") ?? "";
    const network = state.store.get(parentId(subnetId));
    const subnet = objectsAt(network?.properties, "subnets").find((candidate) =>
      sameName(stringAt(candidate, "id") ?? "", subnetId),
    );
    if (subnet === undefined) throw invalidReference(subnetId, id);
    if (propertiesOf(subnet)["privateLinkServiceNetworkPolicies"] !== "Disabled")
      throw new ArmFault(
        400,
        "PrivateLinkServiceCannotBeCreatedInSubnetThatHasNetworkPoliciesEnabled",
        `Private link service ${id} cannot be created in a subnet ${subnetId} since it has private link service network policies enabled.`,
      );
  }
}

/** Source addresses for translation; a dynamic one is not shown, as ARM does not. */
function withStaticAddresses(draft: Draft, { id, state }: WriteContext): void {
  const addresses = new PrivateAddresses(state, id);
  for (const item of objectsAt(draft.properties, "ipConfigurations")) {
    const properties = propertiesOf(item);
    const subnet = idAt(properties, "subnet");
    const address = stringAt(properties, "privateIPAddress");
    if (subnet === undefined || address === undefined || properties["privateIPAllocationMethod"] !== "Static") continue;
    addresses.takeStatic(subnet, versionAt(properties, "privateIPAddressVersion"), address);
  }
}

/** Id of the interface that the service has in its subnet. It is not stored. */
const interfaceOf = (id: string): string =>
  `${id.replace(/privateLinkServices\/([^/]+)$/iu, "networkInterfaces/$1")}.nic.${Bun.hash(id).toString(16)}`;

function touchFrontends(state: SubscriptionState, frontends: readonly string[]): void {
  for (const loadBalancer of new Set(frontends.map(parentId))) state.store.touch(loadBalancer);
}

export const privateLinkServices: ResourceType = {
  type: "Microsoft.Network/privateLinkServices",
  children: ["ipConfigurations", "privateEndpointConnections"],
  prepare(draft, context) {
    const { id, previous, state, seeding, child } = context;
    if (!seeding) {
      checkReferences(draft, context);
      checkPrivateLinks(draft, context);
      withStaticAddresses(draft, context);
    }
    const name = id.slice(id.lastIndexOf("/") + 1);
    const alias =
      stringAt(previous?.properties, "alias") ??
      `${name}.${crypto.randomUUID()}.${state.location}.azure.privatelinkservice`;
    const { privateEndpointConnections: _, networkInterfaces: _interfaces, ...properties } = draft.properties;
    // Consumers create connections; the owner can only delete one, by its own path.
    const connections = seeding || child === "privateEndpointConnections" ? draft.properties : previous?.properties;
    return {
      ...draft,
      properties: {
        ...properties,
        alias,
        privateEndpointConnections: objectsAt(connections, "privateEndpointConnections"),
      },
    };
  },
  view(service) {
    const { properties } = service;
    return {
      ...service,
      properties: {
        enableProxyProtocol: false,
        fqdns: [],
        visibility: { subscriptions: [] },
        autoApproval: { subscriptions: [] },
        networkInterfaces: [{ id: interfaceOf(service.id) }],
        ...properties,
      },
    };
  },
  stored(service, previous, state) {
    touchFrontends(state, [...frontendsOf(previous), ...frontendsOf(service)]);
  },
  checkRemoval(service: Resource) {
    const [connection] = objectsAt(service.properties, "privateEndpointConnections");
    if (connection !== undefined)
      throw new ArmFault(
        400,
        "PrivateLinkServiceWithPrivateEndpointConnectionsCannotBeDeleted",
        `Private link service ${service.id} cannot be deleted since it has private endpoint connection ${nameOf(connection)}.`,
      );
  },
  removed: (service, state) => touchFrontends(state, frontendsOf(service)),
};
