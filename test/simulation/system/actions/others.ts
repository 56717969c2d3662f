/** Writers of the same resources: people, Terraform, AKS. What they write is named `foreign…`, and stays. */
import { type JsonObject, objectAt, objectsAt, stringAt } from "../../../../plugins/azure-cloud/json.ts";
import { ids } from "../azure-view.ts";
import type { Action } from "../history.ts";
import type { World } from "../world.ts";

/** A resource that is not being written: ARM refuses a second write meanwhile. */
function freeAt(world: World, id: string) {
  const resource = world.azure.get(id);
  return stringAt(resource?.properties, "provisioningState") === "Succeeded" ? resource : undefined;
}

/** Adds a part to a list of a resource, as a read and a conditional write that nothing comes between. */
function append(world: World, id: string, property: string, part: JsonObject & { readonly name: string }): boolean {
  const resource = freeAt(world, id);
  if (resource === undefined) return false;
  const parts = objectsAt(resource.properties, property);
  if (parts.some(({ name }) => name === part.name)) return false;
  world.note("other", `adds ${part.name} to ${resource.name}`);
  world.azure.put(id, { ...resource, properties: { ...resource.properties, [property]: [...parts, part] } });
  return true;
}

export function foreignRule(world: World, { pick }: Action): void {
  const number = pick % 40;
  append(world, ids.securityGroup, "securityRules", {
    name: `foreign-rule-${number}`,
    properties: {
      access: pick % 2 === 0 ? "Allow" : "Deny",
      direction: "Inbound",
      priority: 4_000 + number,
      protocol: "Tcp",
      sourceAddressPrefix: "*",
      sourcePortRange: "*",
      destinationAddressPrefix: "10.9.0.0/16",
      destinationPortRange: String(8_000 + number),
    },
  });
}

export function foreignRoute(world: World, { pick }: Action): void {
  const number = pick % 40;
  append(world, ids.routeTable, "routes", {
    name: `foreign-route-${number}`,
    properties: { addressPrefix: `192.168.${number}.0/24`, nextHopType: "VnetLocal" },
  });
}

export function foreignTag(world: World, { pick }: Action): void {
  const id = [ids.balancer, ids.securityGroup][pick % 2] ?? ids.balancer;
  const resource = freeAt(world, id);
  if (resource === undefined) return;
  world.note("other", `tags ${resource.name}`);
  world.azure.put(id, { ...resource, tags: { ...objectAt(resource, "tags"), [`foreign-${pick % 5}`]: String(pick) } });
}

/** An egress frontend on the cluster's load balancer. */
export function foreignFrontend(world: World, { pick }: Action): void {
  if (freeAt(world, ids.balancer) === undefined) return;
  const name = `foreign-ip-${pick % 5}`;
  const publicIP = world.azure.put(`/providers/Microsoft.Network/publicIPAddresses/${name}`, {
    sku: { name: "Standard" },
    properties: { publicIPAllocationMethod: "Static", publicIPAddressVersion: "IPv4" },
  });
  append(world, ids.balancer, "frontendIPConfigurations", {
    name: `foreign-frontend-${pick % 5}`,
    properties: { publicIPAddress: { id: publicIP.id } },
  });
}

/** Takes the first part of ours out of a list of a resource. */
function take(world: World, id: string, property: string, isOurs: (name: string) => boolean): boolean {
  const resource = freeAt(world, id);
  const parts = objectsAt(resource?.properties, property);
  const name = parts.map((part) => stringAt(part, "name") ?? "").find(isOurs);
  if (resource === undefined || name === undefined) return false;
  world.note("other", `removes ${name} from ${resource.name}`);
  const rest = parts.filter((part) => stringAt(part, "name") !== name);
  world.azure.put(id, { ...resource, properties: { ...resource.properties, [property]: rest } });
  return true;
}

export function removeRoute(world: World): void {
  take(world, ids.routeTable, "routes", (name) => name.includes("____"));
}

/** A person removes a rule of ours. It is back when its Service is next synced: here at the latest with the calm. */
export function removeRule(world: World): void {
  if (take(world, ids.securityGroup, "securityRules", (name) => name.startsWith("k8s-azure-lb"))) world.meddled = true;
}
