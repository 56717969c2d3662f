import { isObject, type JsonObject, objectAt, objectsAt, stringAt } from "../json.ts";
import type { Machine } from "./scale-set-machines.ts";
import type { Resource } from "./store.ts";

/** How ARM shows an instance, its network interfaces and its public addresses. */
export type MachineView = (scaleSet: Resource, machine: Machine) => readonly JsonObject[];

const machineId = (scaleSet: Resource, machine: Machine): string =>
  `${scaleSet.id}/virtualMachines/${machine.instanceId}`;

const modelInterfaces = (scaleSet: Resource): readonly JsonObject[] =>
  objectsAt(
    objectAt(objectAt(scaleSet.properties, "virtualMachineProfile"), "networkProfile"),
    "networkInterfaceConfigurations",
  );

const interfacesOf = (scaleSet: Resource, machine: Machine): readonly JsonObject[] =>
  machine.networkInterfaceConfigurations?.filter(isObject) ?? modelInterfaces(scaleSet);

function instanceView(machine: Machine): JsonObject {
  return {
    platformUpdateDomain: machine.faultDomain,
    platformFaultDomain: machine.faultDomain,
    statuses: [
      { code: `ProvisioningState/${machine.provisioningState.toLowerCase()}`, level: "Info" },
      { code: `PowerState/${machine.powerState}`, level: "Info", displayStatus: `VM ${machine.powerState}` },
    ],
  };
}

function bareMachine(scaleSet: Resource, machine: Machine): JsonObject & { readonly properties: JsonObject } {
  const id = machineId(scaleSet, machine);
  const configurations = interfacesOf(scaleSet, machine);
  const sku = objectAt(scaleSet, "sku");
  return {
    id,
    name: `${scaleSet.name}_${machine.instanceId}`,
    type: "Microsoft.Compute/virtualMachineScaleSets/virtualMachines",
    instanceId: machine.instanceId,
    location: scaleSet["location"],
    etag: machine.etag,
    sku: { name: stringAt(sku, "name"), tier: "Standard" },
    ...(machine.zone === undefined ? {} : { zones: [machine.zone] }),
    properties: {
      provisioningState: machine.provisioningState,
      latestModelApplied: machine.networkInterfaceConfigurations === undefined,
      hardwareProfile: { vmSize: stringAt(sku, "name") },
      osProfile: { computerName: machine.computerName },
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

export const machineView: MachineView = (scaleSet, machine) => [bareMachine(scaleSet, machine)];

export const machineViewExpanded: MachineView = (scaleSet, machine) => {
  const bare = bareMachine(scaleSet, machine);
  return [{ ...bare, properties: { ...bare.properties, instanceView: instanceView(machine) } }];
};

/** The first IPv4 configuration has the machine's own address; every further one has one derived from it. */
function addressOf(machine: Machine, version: unknown, index: number): string {
  if (version === "IPv6") return `fd12:3456:${index}::${(Number(machine.instanceId) + 4).toString(16)}`;
  if (index === 0) return machine.privateIP;
  const octets = machine.privateIP.split(".");
  return [octets[0], Number(octets[1]) + index, octets[2], octets[3]].join(".");
}

interface PublicReference {
  readonly id: string;
  readonly configurationId: string;
}

function* publicReferences(scaleSet: Resource, machine: Machine): Generator<PublicReference> {
  if (machine.publicIP === undefined) return;
  const [first] = interfacesOf(scaleSet, machine);
  const [configuration] = objectsAt(objectAt(first, "properties"), "ipConfigurations");
  if (first === undefined || configuration === undefined) return;
  const configurationId = `${machineId(scaleSet, machine)}/networkInterfaces/${stringAt(first, "name") ?? ""}/ipConfigurations/${stringAt(configuration, "name") ?? ""}`;
  yield { id: `${configurationId}/publicIPAddresses/publicip0`, configurationId };
}

export const interfaceView: MachineView = (scaleSet, machine) => {
  const owner = machineId(scaleSet, machine);
  const publicIds = new Map(
    publicReferences(scaleSet, machine).map((reference) => [reference.configurationId, reference.id]),
  );
  let addresses = 0;
  return interfacesOf(scaleSet, machine).map((nic) => {
    const id = `${owner}/networkInterfaces/${stringAt(nic, "name") ?? ""}`;
    return {
      id,
      name: stringAt(nic, "name"),
      etag: machine.etag,
      properties: {
        provisioningState: machine.provisioningState,
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
            etag: machine.etag,
            properties: {
              ...properties,
              privateIPAddress: addressOf(machine, version, addresses++),
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

export const publicAddressView: MachineView = (scaleSet, machine) =>
  [...publicReferences(scaleSet, machine)].map(({ id, configurationId }) => ({
    id,
    name: "publicip0",
    etag: machine.etag,
    properties: {
      provisioningState: "Succeeded",
      publicIPAddressVersion: "IPv4",
      publicIPAllocationMethod: "Dynamic",
      ipAddress: machine.publicIP,
      ipConfiguration: { id: configurationId },
    },
  }));
