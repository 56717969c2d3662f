import { sameName } from "../../arm/resource-id.ts";
import { type JsonObject, objectsAt, stringAt } from "../../json.ts";
import { ArmFault } from "../faults.ts";
import type { Draft, Resource } from "../state/store.ts";
import type { SubscriptionState } from "../state/subscription-state.ts";
import { releaseInterfaces } from "./interfaces.ts";
import { ipConfigurationsOf, scaleSetUsing } from "./ip-configurations.ts";
import { checkAddresses, checkLoadBalancer } from "./load-balancer-checks.ts";
import { PrivateAddresses, versionAt } from "./private-addresses.ts";
import { linkPublicAddresses } from "./public-addresses.ts";
import { idAt, idsAt, nameOf, parentId, propertiesOf, ReferenceIndex, shownSku, without } from "./references.ts";
import type { ResourceType, WriteContext } from "./resource-rules.ts";

/** Read-only properties of sub-resources, which ARM ignores in writes. */
const readOnly: Readonly<Record<string, readonly string[]>> = {
  frontendIPConfigurations: ["loadBalancingRules", "inboundNatRules", "inboundNatPools", "outboundRules"],
  backendAddressPools: ["loadBalancingRules", "outboundRules", "backendIPConfigurations", "inboundNatRules"],
  probes: ["loadBalancingRules"],
};

const mapChildren = (
  properties: JsonObject,
  property: string,
  change: (item: JsonObject) => JsonObject,
): Readonly<Record<string, unknown>> => ({ [property]: objectsAt(properties, property).map(change) });

const mapProperties = (item: JsonObject, change: (properties: JsonObject) => JsonObject): JsonObject => ({
  ...item,
  properties: change(propertiesOf(item)),
});

/** Members on the interface side are shown as addresses without an `ipAddress`; they are not written here. */
const ownAddresses = (pool: JsonObject): readonly JsonObject[] =>
  objectsAt(pool, "loadBalancerBackendAddresses").filter(
    (address) => stringAt(propertiesOf(address), "ipAddress") !== undefined,
  );

function writable(properties: JsonObject): JsonObject {
  const written = Object.entries(readOnly).map(([property, fields]) =>
    mapChildren(properties, property, (item) => mapProperties(item, (inner) => without(inner, fields))),
  );
  const stripped: JsonObject = Object.assign({ ...properties }, ...written);
  return {
    ...stripped,
    ...mapChildren(stripped, "backendAddressPools", (pool) =>
      mapProperties(pool, (inner) =>
        "loadBalancerBackendAddresses" in inner
          ? { ...inner, loadBalancerBackendAddresses: ownAddresses(inner) }
          : inner,
      ),
    ),
  };
}

/** Assigns internal frontends an address of their subnet; a dynamic one is kept as long as the frontend exists. */
function withAddresses(draft: Draft, context: WriteContext): Draft {
  const addresses = new PrivateAddresses(context.state, context.id);
  const previous = objectsAt(context.previous?.properties, "frontendIPConfigurations");
  const held = (item: JsonObject): JsonObject =>
    propertiesOf(previous.find((candidate) => sameName(nameOf(candidate), nameOf(item))) ?? {});
  const settle = (item: JsonObject, take: (subnet: string, properties: JsonObject) => string | undefined): JsonObject =>
    mapProperties(item, (properties) => {
      const subnet = idAt(properties, "subnet");
      if (subnet === undefined) return properties;
      return { ...properties, privateIPAddress: take(subnet, properties) };
    });
  const isStatic = (item: JsonObject): boolean => propertiesOf(item)["privateIPAllocationMethod"] === "Static";
  // Requested addresses first, then those already assigned, then new ones.
  const fixed = objectsAt(draft.properties, "frontendIPConfigurations").map((item) =>
    settle(item, (subnet, properties) => {
      const version = versionAt(properties, "privateIPAddressVersion");
      const before = idAt(held(item), "subnet");
      const kept =
        before !== undefined && sameName(before, subnet) ? stringAt(held(item), "privateIPAddress") : undefined;
      const wanted = stringAt(properties, "privateIPAddress");
      const address = isStatic(item) ? wanted : (kept ?? (context.seeding ? wanted : undefined));
      return address === undefined ? undefined : addresses.takeStatic(subnet, version, address);
    }),
  );
  const frontendIPConfigurations = fixed.map((item) =>
    settle(item, (subnet, properties) => {
      const version = versionAt(properties, "privateIPAddressVersion");
      return stringAt(properties, "privateIPAddress") ?? addresses.takeDynamic(subnet, version);
    }),
  );
  return { ...draft, properties: { ...draft.properties, frontendIPConfigurations } };
}

function prepare(draft: Draft, context: WriteContext): Draft {
  const stripped: Draft = { ...draft, properties: writable(draft.properties) };
  if (!context.seeding) checkAddresses(draft);
  if (!context.seeding) checkLoadBalancer(stripped, context);
  return withAddresses(stripped, context);
}

/** Public addresses by the frontend that uses them. */
const publicReferences = (resource: Resource | undefined): ReadonlyMap<string, string> =>
  new Map(
    objectsAt(resource?.properties, "frontendIPConfigurations").flatMap((frontend) => {
      const address = idAt(propertiesOf(frontend), "publicIPAddress");
      return address === undefined ? [] : [[stringAt(frontend, "id") ?? "", address] as const];
    }),
  );

function privateLinksOf(resource: Resource, state: SubscriptionState): ReferenceIndex {
  const index = new ReferenceIndex();
  for (const service of state.store.listType(state.subscription, "microsoft.network/privatelinkservices"))
    for (const id of idsAt(service.properties, "loadBalancerFrontendIpConfigurations"))
      if (sameName(parentId(id), resource.id)) index.add(id, service.id);
  return index;
}

function rulesIndex(
  properties: JsonObject,
): Readonly<Record<"rules" | "outbound" | "nat" | "natPools", ReferenceIndex>> {
  const index = {
    rules: new ReferenceIndex(),
    outbound: new ReferenceIndex(),
    nat: new ReferenceIndex(),
    natPools: new ReferenceIndex(),
  };
  for (const rule of objectsAt(properties, "loadBalancingRules"))
    for (const reference of ["frontendIPConfiguration", "backendAddressPool", "probe"])
      index.rules.add(idAt(propertiesOf(rule), reference), stringAt(rule, "id") ?? "");
  for (const rule of objectsAt(properties, "outboundRules")) {
    const id = stringAt(rule, "id") ?? "";
    index.outbound.add(idAt(propertiesOf(rule), "backendAddressPool"), id);
    for (const frontend of idsAt(propertiesOf(rule), "frontendIPConfigurations")) index.outbound.add(frontend, id);
  }
  for (const rule of objectsAt(properties, "inboundNatRules"))
    index.nat.add(idAt(propertiesOf(rule), "frontendIPConfiguration"), stringAt(rule, "id") ?? "");
  for (const pool of objectsAt(properties, "inboundNatPools"))
    index.natPools.add(idAt(propertiesOf(pool), "frontendIPConfiguration"), stringAt(pool, "id") ?? "");
  return index;
}

/** The load balancer as ARM shows it: with what refers to its frontends, pools and probes. */
function view(resource: Resource, state: SubscriptionState): Resource {
  const { properties } = resource;
  const { rules, outbound, nat, natPools } = rulesIndex(properties);
  const { byPool } = ipConfigurationsOf(state);
  const extended = (property: string, more: (id: string, inner: JsonObject) => JsonObject): JsonObject =>
    mapChildren(properties, property, (item) =>
      mapProperties(item, (inner) => ({ ...inner, ...more(stringAt(item, "id") ?? "", inner) })),
    );
  return {
    ...resource,
    sku: shownSku(resource),
    properties: {
      ...properties,
      ...extended("frontendIPConfigurations", (id) => ({
        ...rules.field("loadBalancingRules", id),
        ...outbound.field("outboundRules", id),
        ...nat.field("inboundNatRules", id),
        ...natPools.field("inboundNatPools", id),
      })),
      ...extended("backendAddressPools", (id, inner) => ({
        ...rules.field("loadBalancingRules", id),
        ...outbound.field("outboundRules", id),
        ...byPool.field("backendIPConfigurations", id),
        ...backendAddresses(inner, byPool.sourcesOf(id)),
      })),
      ...extended("probes", (id) => rules.field("loadBalancingRules", id)),
      ...extended("loadBalancingRules", (_id, { backendAddressPool: pool }) =>
        pool === undefined ? {} : { backendAddressPools: [pool] },
      ),
    },
  };
}

function backendAddresses(pool: JsonObject, members: readonly string[]): JsonObject {
  const own = ownAddresses(pool);
  if (own.length + members.length === 0) return {};
  const shown = members.map((id) => ({
    name: Bun.hash(id).toString(16),
    properties: { networkInterfaceIPConfiguration: { id } },
  }));
  return { loadBalancerBackendAddresses: [...own, ...shown] };
}

/** Public addresses that refer to a frontend of the load balancer, by frontend. */
function attachedAddresses({ id }: Resource, state: SubscriptionState): ReadonlyMap<string, string> {
  const addresses = state.store.listType(state.subscription, "microsoft.network/publicipaddresses");
  return new Map(
    addresses.flatMap((address) => {
      const user = idAt(address.properties, "ipConfiguration");
      return user !== undefined && sameName(parentId(user), id) ? [[user, address.id] as const] : [];
    }),
  );
}

/** An earlier operation may not have ended, so the attached addresses decide, not what was stored before. */
function stored(resource: Resource, _previous: Resource | undefined, state: SubscriptionState): void {
  linkPublicAddresses(state, attachedAddresses(resource, state), publicReferences(resource));
}

/** Refuses while a scale set or a private link service refers to it, as ARM does. */
function checkRemoval(resource: Resource, state: SubscriptionState): void {
  const use = scaleSetUsing(state, (pool) => sameName(parentId(pool), resource.id));
  if (use !== undefined)
    throw new ArmFault(
      400,
      "LoadBalancerInUseByVirtualMachineScaleSet",
      `Cannot delete load balancer ${resource.id} since its child resources ${use.pool} are in use by virtual machine scale set ${use.scaleSet.id}.`,
    );
  const frontends = objectsAt(resource.properties, "frontendIPConfigurations").map(
    (item) => stringAt(item, "id") ?? "",
  );
  const links = privateLinksOf(resource, state);
  const service = frontends.flatMap((id) => links.sourcesOf(id))[0];
  if (service !== undefined)
    throw new ArmFault(
      400,
      "CannotDeleteLoadBalancerWithPrivateLinkService",
      `Cannot delete load balancer ${resource.id} since it is referenced by private link service ${service}.`,
    );
}

/**
 * Frees its public addresses and releases standalone interfaces from its pools. A superseded write may have taken away
 * frontends whose addresses are still attached.
 */
function removed(resource: Resource, state: SubscriptionState): void {
  linkPublicAddresses(state, attachedAddresses(resource, state), new Map());
  releaseInterfaces(state, (pool) => sameName(parentId(pool), resource.id));
}

export const loadBalancers: ResourceType = {
  type: "Microsoft.Network/loadBalancers",
  children: [
    "frontendIPConfigurations",
    "backendAddressPools",
    "loadBalancingRules",
    "probes",
    "inboundNatRules",
    "inboundNatPools",
    "outboundRules",
  ],
  prepare,
  stored,
  view,
  checkRemoval,
  removed,
};
