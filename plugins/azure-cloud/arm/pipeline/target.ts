import { keepLatest } from "../../keep-latest.ts";
import { parseArmPath, pathIn } from "../resource-id.ts";

/** The subject of a request, as metrics and budgets name it. */
export interface Target {
  readonly subscription: string;
  /** Lower case; empty outside a resource group. */
  readonly resourceGroup: string;
  /** `microsoft.compute/virtualmachinescalesets/virtualmachines`; empty when the path is not one of ARM's. */
  readonly type: string;
  readonly collection: boolean;
  /** The path without its query, as ids spell it. */
  readonly path: string;
}

/** A dozen policies ask for the target of a request, and each poll of an operation has the same one. */
const recent = new Map<string, Target>();
const maxRecent = 256;

export function targetOf(url: string): Target {
  const known = recent.get(url);
  if (known !== undefined) return known;
  const target = parsedTarget(url);
  recent.set(url, target);
  keepLatest(recent, maxRecent);
  return target;
}

function parsedTarget(url: string): Target {
  const path = pathIn(new URL(url));
  const parsed = parseArmPath(path);
  return {
    subscription: parsed?.subscription ?? "",
    resourceGroup: parsed?.resourceGroup?.toLowerCase() ?? "",
    type: parsed?.provider === undefined ? "" : `${parsed.provider}/${parsed.type}`.toLowerCase(),
    collection: parsed?.collection ?? false,
    path,
  };
}

export const isRead = (method: string): boolean => method === "GET" || method === "HEAD";

/** Upstream's names of types in metrics; other types are named by their last segment. */
const resourceWords: Readonly<Record<string, string>> = {
  "microsoft.compute/virtualmachines": "VirtualMachine",
  "microsoft.compute/virtualmachinescalesets": "VirtualMachineScaleSet",
  "microsoft.compute/virtualmachinescalesets/virtualmachines": "VirtualMachineScaleSetVM",
  "microsoft.compute/virtualmachinescalesets/networkinterfaces": "Interface",
  "microsoft.compute/virtualmachinescalesets/publicipaddresses": "PublicIPAddress",
  "microsoft.compute/availabilitysets": "AvailabilitySet",
  "microsoft.network/networkinterfaces": "Interface",
  "microsoft.network/loadbalancers": "LoadBalancer",
  "microsoft.network/loadbalancers/backendaddresspools": "BackendAddressPool",
  "microsoft.network/publicipaddresses": "PublicIPAddress",
  "microsoft.network/networksecuritygroups": "SecurityGroup",
  "microsoft.network/routetables": "RouteTable",
  "microsoft.network/virtualnetworks/subnets": "Subnet",
  "microsoft.network/privatelinkservices": "PrivateLinkService",
};

export const resourceWord = (target: Target): string =>
  resourceWords[target.type] ?? target.type.slice(target.type.lastIndexOf("/") + 1);

/** Upstream's names of methods. */
export function methodWord(method: string, target: Target): string {
  if (isRead(method)) return target.collection ? "list" : "get";
  if (target.type.endsWith("/privateendpointconnections") && method === "DELETE")
    return "deletePrivateEndpointConnection";
  return { PUT: "create_or_update", DELETE: "delete", PATCH: "update" }[method] ?? method.toLowerCase();
}
