import { type JsonObject, objectAt, objectsAt, stringAt } from "../../json.ts";
import type { Instance } from "../state/scale-set-instances.ts";
import type { Resource } from "../state/store.ts";

/** ARM's view of an instance, its network interfaces and its public addresses. */
export type ScaleSetView = (scaleSet: Resource, instance: Instance) => readonly JsonObject[];

const vmId = (scaleSet: Resource, instance: Instance): string =>
  `${scaleSet.id}/virtualMachines/${instance.instanceId}`;

/** The interface configurations of a scale set's model. */
export const modelInterfaces = (scaleSet: { readonly properties: JsonObject }): readonly JsonObject[] =>
  objectsAt(
    objectAt(objectAt(scaleSet.properties, "virtualMachineProfile"), "networkProfile"),
    "networkInterfaceConfigurations",
  );

function instanceView(instance: Instance): JsonObject {
  return {
    platformUpdateDomain: instance.faultDomain,
    platformFaultDomain: instance.faultDomain,
    statuses: [
      { code: `ProvisioningState/${instance.provisioningState.toLowerCase()}`, level: "Info" },
      { code: `PowerState/${instance.powerState}`, level: "Info", displayStatus: `VM ${instance.powerState}` },
    ],
  };
}

function bareVm(scaleSet: Resource, instance: Instance): JsonObject & { readonly properties: JsonObject } {
  const id = vmId(scaleSet, instance);
  const configurations = instance.networkInterfaceConfigurations;
  const sku = objectAt(scaleSet, "sku");
  return {
    id,
    name: `${scaleSet.name}_${instance.instanceId}`,
    type: "Microsoft.Compute/virtualMachineScaleSets/virtualMachines",
    instanceId: instance.instanceId,
    location: scaleSet["location"],
    etag: instance.etag,
    sku: { name: stringAt(sku, "name"), tier: "Standard" },
    ...(instance.zone === undefined ? {} : { zones: [instance.zone] }),
    properties: {
      provisioningState: instance.provisioningState,
      latestModelApplied: Bun.deepEquals(configurations, modelInterfaces(scaleSet)),
      hardwareProfile: { vmSize: stringAt(sku, "name") },
      osProfile: { computerName: instance.computerName },
      networkProfile: {
        networkInterfaces: configurations.map((configuration) => ({
          id: `${id}/networkInterfaces/${stringAt(configuration, "name") ?? ""}`,
          properties: { primary: objectAt(configuration, "properties")?.["primary"] === true },
        })),
      },
      networkProfileConfiguration: { networkInterfaceConfigurations: configurations },
    },
  };
}

export const vmView: ScaleSetView = (scaleSet, instance) => [bareVm(scaleSet, instance)];

export const expandedVmView: ScaleSetView = (scaleSet, instance) => {
  const bare = bareVm(scaleSet, instance);
  return [{ ...bare, properties: { ...bare.properties, instanceView: instanceView(instance) } }];
};

/** The first IPv4 configuration has the instance's own address; every further one has one derived from it. */
function addressOf(instance: Instance, version: unknown, index: number): string {
  if (version === "IPv6")
    return instance.privateIPv6 ?? `fd12:3456:${index}::${(Number(instance.instanceId) + 4).toString(16)}`;
  if (index === 0) return instance.privateIP;
  const octets = instance.privateIP.split(".");
  return [octets[0], Number(octets[1]) + index, octets[2], octets[3]].join(".");
}

interface PublicReference {
  readonly id: string;
  readonly configurationId: string;
}

function* publicReferences(scaleSet: Resource, instance: Instance): Generator<PublicReference> {
  if (instance.publicIP === undefined) return;
  const [first] = instance.networkInterfaceConfigurations;
  const [configuration] = objectsAt(objectAt(first, "properties"), "ipConfigurations");
  if (first === undefined || configuration === undefined) return;
  const configurationId = `${vmId(scaleSet, instance)}/networkInterfaces/${stringAt(first, "name") ?? ""}/ipConfigurations/${stringAt(configuration, "name") ?? ""}`;
  yield { id: `${configurationId}/publicIPAddresses/publicip0`, configurationId };
}

export const interfaceView: ScaleSetView = (scaleSet, instance) => {
  const owner = vmId(scaleSet, instance);
  const publicIds = new Map(
    publicReferences(scaleSet, instance).map((reference) => [reference.configurationId, reference.id]),
  );
  let addresses = 0;
  return instance.networkInterfaceConfigurations.map((nic) => {
    const id = `${owner}/networkInterfaces/${stringAt(nic, "name") ?? ""}`;
    return {
      id,
      name: stringAt(nic, "name"),
      etag: instance.etag,
      properties: {
        provisioningState: instance.provisioningState,
        primary: objectAt(nic, "properties")?.["primary"] === true,
        virtualMachine: { id: owner },
        ipConfigurations: objectsAt(objectAt(nic, "properties"), "ipConfigurations").map((configuration) => {
          const configurationId = `${id}/ipConfigurations/${stringAt(configuration, "name") ?? ""}`;
          const publicId = publicIds.get(configurationId);
          const properties = objectAt(configuration, "properties") ?? {};
          const version = properties["privateIPAddressVersion"] ?? "IPv4";
          return {
            id: configurationId,
            name: stringAt(configuration, "name"),
            etag: instance.etag,
            properties: {
              ...properties,
              privateIPAddress: addressOf(instance, version, addresses++),
              privateIPAllocationMethod: "Dynamic",
              privateIPAddressVersion: version,
              ...(publicId === undefined ? {} : { publicIPAddress: { id: publicId } }),
            },
          };
        }),
      },
    };
  });
};

export const publicAddressView: ScaleSetView = (scaleSet, instance) =>
  [...publicReferences(scaleSet, instance)].map(({ id, configurationId }) => ({
    id,
    name: "publicip0",
    etag: instance.etag,
    properties: {
      provisioningState: "Succeeded",
      publicIPAddressVersion: "IPv4",
      publicIPAllocationMethod: "Dynamic",
      ipAddress: instance.publicIP,
      ipConfiguration: { id: configurationId },
    },
  }));
