import type {
  VirtualMachineScaleSet,
  VirtualMachineScaleSetNetworkConfiguration,
  VirtualMachineScaleSetVM,
} from "@azure/arm-compute";
import type { NetworkInterface, PublicIPAddress } from "@azure/arm-network";

import { lastSegment, parseArmPath } from "../arm/resource-id.ts";

/** The fields of a scale set that are kept. */
export interface ScaleSetRecord {
  readonly id: string;
  readonly name: string;
  readonly resourceGroup: string;
  readonly uniform: boolean;
  /** Prefix of its computer names. */
  readonly prefix: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly deleting: boolean;
  /** The network interfaces of new instances, as far as backend pools go. */
  readonly interfaces: readonly ModelInterface[];
  /** Its image does not support IPv6 pools. */
  readonly ipv4Only: boolean;
}

interface ModelInterface {
  readonly primary: boolean;
  readonly ipConfigurations: readonly {
    readonly primary: boolean;
    readonly privateIPAddressVersion: string;
    readonly loadBalancerBackendAddressPools: readonly { readonly id: string }[];
  }[];
}

/** The fields of an instance that are kept: 1 MB for 2,000 instances, where the SDK's models take 20 MB. */
export interface InstanceRecord {
  readonly id: string;
  readonly instanceId: string;
  /** Computer name in lower case. */
  readonly nodeName: string;
  readonly location: string;
  readonly zone: string | undefined;
  readonly faultDomain: number | undefined;
  readonly instanceType: string;
  readonly provisioningState: string;
  /** Lower case, `running`; `unknown` when ARM does not report it. */
  readonly powerState: string;
  /** Its network interfaces. */
  readonly interfaces: readonly InterfaceReference[];
}

export interface InterfaceReference {
  readonly id: string;
  readonly primary: boolean;
}

export interface InterfaceRecord {
  readonly id: string;
  readonly provisioningState: string;
  readonly ipConfigurations: readonly IPConfigurationRecord[];
}

export interface IPConfigurationRecord {
  readonly primary: boolean;
  readonly privateIP: string;
  readonly publicIPId: string | undefined;
}

/** A gallery image of Windows Server 2019 for containers, whose instances cannot be in pools of IPv6. */
const windows2019 = /windows-2019-containerd|17763/u;

export function scaleSetRecord(scaleSet: VirtualMachineScaleSet): ScaleSetRecord {
  const id = scaleSet.id ?? "";
  const name = scaleSet.name ?? lastSegment(id);
  const profile = scaleSet.virtualMachineProfile;
  const { imageReference, osDisk } = profile?.storageProfile ?? {};
  return {
    id,
    name,
    resourceGroup: parseArmPath(id)?.resourceGroup ?? "",
    uniform: (scaleSet.orchestrationMode ?? "Uniform").toLowerCase() !== "flexible",
    prefix: profile?.osProfile?.computerNamePrefix || name,
    tags: scaleSet.tags ?? {},
    deleting: scaleSet.provisioningState?.toLowerCase() === "deleting",
    interfaces: (profile?.networkProfile?.networkInterfaceConfigurations ?? []).map(modelInterface),
    ipv4Only: osDisk?.osType === "Windows" && windows2019.test(imageReference?.id ?? ""),
  };
}

const modelInterface = ({
  primary = false,
  ipConfigurations = [],
}: VirtualMachineScaleSetNetworkConfiguration): ModelInterface => ({
  primary,
  ipConfigurations: ipConfigurations.map((one) => ({
    primary: one.primary ?? false,
    privateIPAddressVersion: one.privateIPAddressVersion ?? "IPv4",
    loadBalancerBackendAddressPools: (one.loadBalancerBackendAddressPools ?? []).map(({ id = "" }) => ({ id })),
  })),
});

/** Undefined for an instance without a network profile, which cannot be a node. */
export function instanceRecord(vm: VirtualMachineScaleSetVM): InstanceRecord | undefined {
  if (vm.networkProfile?.networkInterfaces === undefined) return undefined;
  const id = vm.id ?? "";
  return {
    id,
    instanceId: vm.instanceId ?? lastSegment(id),
    nodeName: (vm.osProfile?.computerName ?? "").toLowerCase(),
    location: vm.location ?? "",
    zone: vm.zones?.[0],
    faultDomain: vm.instanceView?.platformFaultDomain,
    instanceType: vm.sku?.name ?? "",
    provisioningState: vm.provisioningState ?? "",
    powerState: powerStateOf(vm.instanceView?.statuses),
    interfaces: referencesOf(vm.networkProfile),
  };
}

export const referencesOf = (profile: VirtualMachineScaleSetVM["networkProfile"]): readonly InterfaceReference[] =>
  (profile?.networkInterfaces ?? []).map((reference) => ({
    id: reference.id ?? "",
    primary: reference.primary ?? false,
  }));

const powerPrefix = "powerstate/";

/** The first power status, in lower case. */
export function powerStateOf(statuses: readonly { readonly code?: string }[] | undefined): string {
  const status = statuses?.find(({ code }) => code?.toLowerCase().startsWith(powerPrefix));
  return status?.code?.slice(powerPrefix.length).toLowerCase() ?? "unknown";
}

export const interfaceRecord = (nic: NetworkInterface): InterfaceRecord => ({
  id: nic.id ?? "",
  provisioningState: nic.provisioningState ?? "",
  ipConfigurations: (nic.ipConfigurations ?? []).map((configuration) => ({
    primary: configuration.primary ?? false,
    privateIP: configuration.privateIPAddress ?? "",
    publicIPId: configuration.publicIPAddress?.id,
  })),
});

/** Lower-case id and address; empty for one without an address. */
export const addressEntry = (publicIP: PublicIPAddress): readonly [string, string][] =>
  publicIP.id !== undefined && publicIP.ipAddress ? [[publicIP.id.toLowerCase(), publicIP.ipAddress]] : [];
