import type { JsonObject } from "../json.ts";
import { objectAt, stringAt, stringsAt } from "../json.ts";
import { drafted, storeResource } from "./http/resource-routes.ts";
import { frontendAddresses } from "./resources/private-addresses.ts";
import { resourceType } from "./resources/resource-types.ts";
import { modelInterfaces } from "./resources/scale-set-views.ts";
import type { Instance, InstanceChange } from "./state/scale-set-instances.ts";
import { draftOf, type Resource } from "./state/store.ts";
import type { SubscriptionState } from "./state/subscription-state.ts";

export interface ScaleSetSeed {
  readonly name: string;
  /** Start of the computer names; default: the scale set's name. */
  readonly prefix?: string;
  readonly resourceGroup?: string;
  /** Instances are spread over these; default 1, 2 and 3. Empty: no zones. */
  readonly zones?: readonly string[];
  readonly vmSize?: string;
  readonly tags?: Readonly<Record<string, string>>;
  readonly orchestrationMode?: "Uniform" | "Flexible";
  /** Also gives instances an IPv6 configuration. */
  readonly dualStack?: boolean;
}

const providers = (state: SubscriptionState, group: string): string =>
  `/subscriptions/${state.subscription}/resourceGroups/${group}/providers`;

function put(state: SubscriptionState, type: string, group: string, name: string, body: JsonObject): Resource {
  const id = `${providers(state, group)}/${type}/${name}`;
  const row = resourceType(type);
  const full = { location: state.location, ...body };
  return row === undefined
    ? state.store.put(id, draftOf(full))
    : storeResource(state, row, id, drafted(state, row, id, full, { seeding: true }));
}

/** One resource group with a network, a security group, a route table and the scale set `vmss0`. */
export function seedNetwork(state: SubscriptionState, group: string): void {
  state.store.addGroup(state.subscription, group);
  const addressPrefixes = ["10.240.0.0/16", "fd12:3456::/32"];
  const subnets = [{ name: "subnet0", properties: { addressPrefixes } }];
  const space = { addressPrefixes };
  put(state, "Microsoft.Network/virtualNetworks", group, "vnet0", { properties: { addressSpace: space, subnets } });
  put(state, "Microsoft.Network/networkSecurityGroups", group, "nsg0", { properties: { securityRules: [] } });
  put(state, "Microsoft.Network/routeTables", group, "rt0", { properties: { routes: [] } });
  seedScaleSet(state, group, { name: "vmss0" });
}

export function seedScaleSet(state: SubscriptionState, group: string, seed: ScaleSetSeed): Resource {
  const owner = seed.resourceGroup ?? group;
  const subnet = { id: `${providers(state, group)}/Microsoft.Network/virtualNetworks/vnet0/subnets/subnet0` };
  const ipConfiguration = (name: string, version: string, primary: boolean): JsonObject => ({
    name,
    properties: { primary, privateIPAddressVersion: version, subnet, loadBalancerBackendAddressPools: [] },
  });
  const ipConfigurations = [
    ipConfiguration("ipconfig0", "IPv4", true),
    ...(seed.dualStack === true ? [ipConfiguration("ipconfig0-ipv6", "IPv6", false)] : []),
  ];
  return put(state, "Microsoft.Compute/virtualMachineScaleSets", owner, seed.name, {
    sku: { name: seed.vmSize ?? "Standard_D2s_v3", tier: "Standard", capacity: 0 },
    zones: seed.zones ?? ["1", "2", "3"],
    ...(seed.tags === undefined ? {} : { tags: seed.tags }),
    properties: {
      orchestrationMode: seed.orchestrationMode ?? "Uniform",
      virtualMachineProfile: {
        osProfile: { computerNamePrefix: seed.prefix ?? seed.name },
        storageProfile: { osDisk: { osType: "Linux", createOption: "FromImage" } },
        networkProfile: {
          networkInterfaceConfigurations: [{ name: "nic0", properties: { primary: true, ipConfigurations } }],
        },
      },
    },
  });
}

/** Computer names end in the instance id, as six digits of base 36. */
const computerNameOf = (prefix: string, instanceId: number): string =>
  `${prefix}${instanceId.toString(36).padStart(6, "0")}`;

/** Addresses from 10.240.0.4 on, in order, over all scale sets. */
function privateAddress(position: number): string {
  const host = position + 4;
  return `10.240.${host >> 8}.${host & 255}`;
}

/** The address of the next instance; addresses taken by frontends are skipped. */
function nextPrivateAddress(state: SubscriptionState): string {
  const taken = new Set(frontendAddresses(state));
  for (;;) {
    const address = privateAddress(state.nextInstancePosition());
    if (!taken.has(address)) return address;
  }
}

export function addInstance(state: SubscriptionState, scaleSetId: string, change: InstanceChange = {}): Instance {
  const scaleSet = state.store.get(scaleSetId);
  if (scaleSet === undefined) throw new Error(`scale set ${scaleSetId} does not exist`);
  const prefix = stringAt(
    objectAt(objectAt(scaleSet.properties, "virtualMachineProfile"), "osProfile"),
    "computerNamePrefix",
  );
  const zones = stringsAt(scaleSet, "zones");
  return state.instances(scaleSetId).add((instanceId) => ({
    computerName: computerNameOf(prefix ?? scaleSet.name, instanceId),
    privateIP: nextPrivateAddress(state),
    privateIPv6: undefined,
    publicIP: undefined,
    zone: zones[instanceId % Math.max(1, zones.length)],
    faultDomain: instanceId % 5,
    powerState: "running",
    provisioningState: "Succeeded",
    networkInterfaceConfigurations: modelInterfaces(scaleSet),
    hidden: false,
    ...change,
  }));
}
