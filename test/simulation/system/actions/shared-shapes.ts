import { objectAt, stringAt } from "../../../../plugins/azure-cloud/json.ts";
import { ownersOf } from "../azure-view.ts";
import type { World } from "../world.ts";
import { type Feature, features, type Port, port, type Shape, usersIP } from "./service-shapes.ts";

const sharedIP = `${usersIP}shared`;
/** A public IP of a user that several Services ask for. */
export const sharedIPId = `/providers/Microsoft.Network/publicIPAddresses/${sharedIP}`;

const annotated = (address: string): Shape => ({ annotations: { "azure-load-balancer-ipv4": address } });
const addressOf = (publicIP: object | undefined): string =>
  stringAt(objectAt({ ...publicIP }, "properties"), "ipAddress") ?? "";

/** How a Service asks for its address. */
export const sharedAddresses: Readonly<Record<string, (world: World, name: string) => Shape>> = {
  "of a user, by name": () => ({ annotations: { "azure-pip-name": sharedIP } }),
  "of a user, by annotation": ({ azure }) => annotated(addressOf(azure.get(sharedIPId))),
  "of a user, in its spec": ({ azure }) => ({ spec: { loadBalancerIP: addressOf(azure.get(sharedIPId)) } }),
  internal: () => ({
    annotations: { "azure-load-balancer-internal": "true", "azure-load-balancer-ipv4": "10.240.250.100" },
  }),
  "of another Service": (world, name) => {
    const other = addressOfOther(world, name);
    return other === undefined ? {} : annotated(other);
  },
  own: () => ({}),
};

/** The address of a public IP that the product has created for other Services. */
function addressOfOther(world: World, name: string): string | undefined {
  const ofOthers = world.view().publicIPs.filter((one) => {
    const owners = ownersOf(one);
    return owners.length > 0 && !owners.includes(`default/${name}`);
  });
  return ofOthers.map(addressOf).find((address) => address !== "");
}

/** Ports of Service number `number`: others want 80 and 443 as well. */
export const sharedPorts: Readonly<Record<string, (number: number) => readonly Port[]>> = {
  own: (number) => [port(8000 + number)],
  "two of its own": (number) => [port(8000 + number), port(9000 + number)],
  "80 and its own": (number) => [port(80), port(8000 + number)],
  "80 alone": () => [port(80)],
  "443, 53 and its own": (number) => [port(53, "UDP"), port(443), port(8000 + number)],
};

/** Groups of features that have nothing to do with addresses and ports. */
const free = new Set(["ranges", "traffic", "affinity", "timeout", "rules", "drain", "probe"]);
export const sharedFeatures: readonly Feature[] = features.filter(({ group }) => free.has(group));

/** The shape of a number for a Service of a cluster whose Services share addresses: half of them have a feature as well. */
export function sharedShapeOf(world: World, name: string, pick: number): Shape {
  const [addresses, ports] = [Object.values(sharedAddresses), Object.values(sharedPorts)];
  const address = addresses[pick % addresses.length]?.(world, name);
  const chosen = ports[Math.floor(pick / addresses.length) % ports.length]?.(Number(name.slice(1))) ?? [];
  const round = Math.floor(pick / addresses.length / ports.length);
  const drawn = round % 2 === 0 ? undefined : sharedFeatures[pick % sharedFeatures.length];
  // Without floating IP, a Service may leave ports open on its address, and the next process closes them if others have it.
  const feature = drawn?.annotations?.["azure-disable-load-balancer-floating-ip"] === undefined ? drawn : undefined;
  return {
    annotations: { ...feature?.annotations, ...address?.annotations },
    spec: { ...feature?.spec, ...address?.spec, ports: chosen },
  };
}
