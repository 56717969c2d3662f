import { sameName } from "../../arm/resource-id.ts";
import { type JsonObject, objectAt, objectsAt, stringAt } from "../../json.ts";
import { ArmFault } from "../faults.ts";
import { type Draft, draftOf, type Resource } from "../state/store.ts";
import type { SubscriptionState } from "../state/subscription-state.ts";
import { touchLoadBalancers } from "./ip-configurations.ts";
import { PrivateAddresses, versionAt } from "./private-addresses.ts";
import { linkPublicAddresses } from "./public-addresses.ts";
import { hasId, idAt, idsAt, invalidReference, nameOf, parentId, propertiesOf } from "./references.ts";
import type { ResourceType, WriteContext } from "./resource-rules.ts";

const poolsField = "loadBalancerBackendAddressPools";

const configurationsOf = (nic: { readonly properties: JsonObject } | undefined): readonly JsonObject[] =>
  objectsAt(nic?.properties, "ipConfigurations");

const poolsOf = (nic: { readonly properties: JsonObject } | undefined): readonly string[] =>
  configurationsOf(nic).flatMap((item) => idsAt(propertiesOf(item), poolsField));

/** An internal load balancer is one with a frontend in a subnet. */
const kindOf = (loadBalancer: Resource): string =>
  objectsAt(loadBalancer.properties, "frontendIPConfigurations").some(
    (frontend) => objectAt(propertiesOf(frontend), "subnet") !== undefined,
  )
    ? "internal"
    : "public";

/** Refuses pools that do not exist, and pools of two load balancers of one kind. */
export function checkPools(
  state: SubscriptionState,
  pools: readonly string[],
  owner: string,
  twoOfAKind: string,
): void {
  const byKind = new Map<string, string>();
  for (const pool of pools) {
    const loadBalancer = state.store.get(parentId(pool));
    const known = objectsAt(loadBalancer?.properties, "backendAddressPools").map((item) => stringAt(item, "id") ?? "");
    if (loadBalancer === undefined || !hasId(known, pool)) throw invalidReference(pool, owner);
    const other = byKind.get(kindOf(loadBalancer)) ?? loadBalancer.id;
    byKind.set(kindOf(loadBalancer), other);
    if (other !== loadBalancer.id)
      throw new ArmFault(
        400,
        twoOfAKind,
        `${owner} references more than one load balancer of the same type (internal or public): ${other}, ${loadBalancer.id}.`,
      );
  }
}

/** Assigns a private address to every IP configuration; a dynamic one is kept as long as the configuration exists. */
function addressed(item: JsonObject, addresses: PrivateAddresses, context: WriteContext): JsonObject {
  const properties = propertiesOf(item);
  const subnet = idAt(properties, "subnet");
  const previous = configurationsOf(context.previous).find((other) => sameName(nameOf(other), nameOf(item)));
  const wanted = stringAt(properties, "privateIPAddress");
  const held = stringAt(previous && propertiesOf(previous), "privateIPAddress");
  const isStatic = properties["privateIPAllocationMethod"] === "Static";
  const version = versionAt(properties, "privateIPAddressVersion");
  const take = (): string | undefined => {
    if (context.seeding && wanted !== undefined) return wanted;
    if (isStatic && wanted !== undefined && wanted !== held && subnet !== undefined)
      return addresses.takeStatic(subnet, version, wanted);
    if (isStatic) return wanted;
    return held ?? (subnet === undefined ? wanted : addresses.takeDynamic(subnet, version));
  };
  const privateIPAddress = take();
  return { ...item, properties: { ...properties, ...(privateIPAddress === undefined ? {} : { privateIPAddress }) } };
}

function prepare(draft: Draft, context: WriteContext): Draft {
  const { id, previous, state, seeding } = context;
  if (!seeding) checkPools(state, poolsOf(draft), id, "NetworkInterfaceUsesMultipleLoadBalancersOfSameType");
  const addresses = new PrivateAddresses(state, id);
  const ipConfigurations = configurationsOf(draft).map((item) => addressed(item, addresses, context));
  const virtualMachine = seeding ? draft.properties["virtualMachine"] : undefined;
  const owner = virtualMachine ?? previous?.properties["virtualMachine"];
  // Read-only in ARM: the virtual machine decides it.
  const primary = draft.properties["primary"] ?? previous?.properties["primary"];
  return {
    ...draft,
    properties: {
      ...draft.properties,
      ipConfigurations,
      ...(owner === undefined ? {} : { virtualMachine: owner }),
      ...(primary === undefined ? {} : { primary }),
    },
  };
}

const publicReferences = (nic: Resource | undefined): ReadonlyMap<string, string> =>
  new Map(
    configurationsOf(nic).flatMap((item) => {
      const address = idAt(propertiesOf(item), "publicIPAddress");
      return address === undefined ? [] : [[stringAt(item, "id") ?? "", address] as const];
    }),
  );

/** Removes standalone interfaces from pools. */
export function releaseInterfaces(state: SubscriptionState, isReleased: (pool: string) => boolean): void {
  for (const nic of state.store.listType(state.subscription, "microsoft.network/networkinterfaces")) {
    if (!poolsOf(nic).some(isReleased)) continue;
    const ipConfigurations = configurationsOf(nic).map((item) => {
      const pools = objectsAt(propertiesOf(item), poolsField);
      const kept = pools.filter((pool) => !isReleased(stringAt(pool, "id") ?? ""));
      return { ...item, properties: { ...propertiesOf(item), [poolsField]: kept } };
    });
    state.store.put(nic.id, draftOf({ ...nic, properties: { ...nic.properties, ipConfigurations } }));
  }
}

export const networkInterfaces: ResourceType = {
  type: "Microsoft.Network/networkInterfaces",
  children: ["ipConfigurations"],
  view: (nic) => ({
    ...nic,
    properties: { enableAcceleratedNetworking: false, enableIPForwarding: false, ...nic.properties },
  }),
  prepare,
  stored(nic, previous, state) {
    linkPublicAddresses(state, publicReferences(previous), publicReferences(nic));
    touchLoadBalancers(state, poolsOf(previous), poolsOf(nic));
  },
  checkRemoval(nic) {
    const owner = idAt(nic.properties, "virtualMachine");
    if (owner !== undefined)
      throw new ArmFault(
        400,
        "NicInUse",
        `Network Interface ${nic.id} is used by existing resource ${owner}. In order to delete the network interface, it must be dissociated from the resource.`,
      );
  },
  removed(nic, state) {
    // What it would write is gone, and another interface may have the name by then.
    state.operations.supersede(nic.id);
    linkPublicAddresses(state, publicReferences(nic), new Map());
    touchLoadBalancers(state, poolsOf(nic), []);
  },
};

const interfacesOf = (vm: Resource | undefined): readonly string[] =>
  idsAt(objectAt(vm?.properties, "networkProfile"), "networkInterfaces");

/** An interface shows the virtual machine that it is attached to. */
function attach(state: SubscriptionState, ids: readonly string[], virtualMachine: JsonObject | undefined): void {
  for (const id of ids) {
    const nic = state.store.get(id);
    if (nic === undefined) continue;
    const { virtualMachine: _, ...properties } = nic.properties;
    const owner = virtualMachine === undefined ? {} : { virtualMachine };
    state.store.put(id, draftOf({ ...nic, properties: { ...properties, ...owner } }));
  }
}

export const virtualMachines: ResourceType = {
  type: "Microsoft.Compute/virtualMachines",
  merges: true,
  expandable: ["instanceView"],
  stored(vm, previous, state) {
    const now = interfacesOf(vm);
    const before = interfacesOf(previous);
    attach(
      state,
      before.filter((id) => !hasId(now, id)),
      undefined,
    );
    attach(
      state,
      now.filter((id) => !hasId(before, id)),
      { id: vm.id },
    );
  },
  removed: (vm, state) => attach(state, interfacesOf(vm), undefined),
};

/** The virtual machines of an availability set refer to it, not the other way round. */
export const availabilitySets: ResourceType = {
  type: "Microsoft.Compute/availabilitySets",
  isBare: true,
  view(set, state) {
    const members = state.store
      .listType(state.subscription, "microsoft.compute/virtualmachines")
      .filter(({ properties }) => sameName(idAt(properties, "availabilitySet") ?? "", set.id));
    if (members.length === 0) return set;
    return { ...set, properties: { ...set.properties, virtualMachines: members.map(({ id }) => ({ id })) } };
  },
};
