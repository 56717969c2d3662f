import type {
  BackendAddressPool,
  LoadBalancer,
  NetworkSecurityGroup,
  PrivateLinkService,
  PublicIPAddress,
} from "@azure/arm-network";
import type { Clock } from "cloud-controller-host/sdk";

import type { AzureConfig } from "../../config/decode.ts";
import type { ArmClients } from "../clients.ts";
import { parseArmPath } from "../resource-id.ts";
import { type ResourceCalls, Resources } from "./resources.ts";

/** The network resources of the cluster's load balancers. */
export interface NetworkResources {
  readonly loadBalancers: Resources<LoadBalancer>;
  readonly publicIPs: Resources<PublicIPAddress>;
  readonly securityGroups: Resources<NetworkSecurityGroup>;
  readonly privateLinkServices: Resources<PrivateLinkService>;
}

const byType: Readonly<Record<string, keyof NetworkResources>> = {
  loadbalancers: "loadBalancers",
  publicipaddresses: "publicIPs",
  networksecuritygroups: "securityGroups",
  privatelinkservices: "privateLinkServices",
};

/** Makes the next reader get the resource by itself. */
export function outdate(network: NetworkResources, id: string): void {
  const resources = byType[parseArmPath(id)?.type.toLowerCase() ?? ""];
  if (resources !== undefined) network[resources].invalidate(id);
}

/** Makes the next reader of each list get it again. */
export function forgetAll(network: NetworkResources): void {
  for (const resources of Object.values(network)) resources.forget();
}

/** Private link services are in the subscription of the instances, as upstream. */
export function networkResources(
  { network, vmNetwork }: ArmClients,
  config: AzureConfig,
  options: { readonly clock: Clock; readonly signal: AbortSignal },
): NetworkResources {
  const resources = <Item extends { readonly id?: string; readonly etag?: string }>(
    ttlSeconds: number,
    calls: ResourceCalls<Item>,
  ): Resources<Item> => new Resources(calls, { ...options, ttlMs: config.disableAPICallCache ? 0 : ttlSeconds * 1000 });
  return {
    loadBalancers: resources(config.loadBalancerCacheTTLInSeconds, {
      noun: "load balancer",
      list: (group) => network.loadBalancers.list(group),
      get: (group, name) => network.loadBalancers.get(group, name),
      put: (group, name, body, write) => network.loadBalancers.createOrUpdate(group, name, withoutMembers(body), write),
      delete: (group, name, write) => network.loadBalancers.delete(group, name, write),
    }),
    publicIPs: resources(config.publicIPCacheTTLInSeconds, {
      noun: "public IP address",
      list: (group) => network.publicIPAddresses.list(group),
      get: (group, name) => network.publicIPAddresses.get(group, name),
      put: (group, name, body, write) => network.publicIPAddresses.createOrUpdate(group, name, body, write),
      delete: (group, name, write) => network.publicIPAddresses.delete(group, name, write),
    }),
    securityGroups: resources(config.nsgCacheTTLInSeconds, {
      noun: "network security group",
      list: async function* (group) {
        if (config.securityGroupName !== "")
          yield await network.networkSecurityGroups.get(group, config.securityGroupName);
      },
      get: (group, name) => network.networkSecurityGroups.get(group, name),
      put: (group, name, body, write) => network.networkSecurityGroups.createOrUpdate(group, name, body, write),
      delete: (group, name, write) => network.networkSecurityGroups.delete(group, name, write),
    }),
    privateLinkServices: resources(config.plsCacheTTLInSeconds, {
      noun: "private link service",
      list: (group) => vmNetwork.privateLinkServices.list(group),
      get: (group, name) => vmNetwork.privateLinkServices.get(group, name),
      put: (group, name, body, write) => vmNetwork.privateLinkServices.createOrUpdate(group, name, body, write),
      delete: (group, name, write) => vmNetwork.privateLinkServices.delete(group, name, write),
    }),
  };
}

const withoutMembers = (body: LoadBalancer): LoadBalancer => ({
  ...body,
  ...(body.backendAddressPools && { backendAddressPools: body.backendAddressPools.map(withoutNames) }),
});

/**
 * ARM shows the members of a pool of network interfaces as addresses, of which the SDK would send no more than the
 * names. A write without addresses keeps the members.
 */
function withoutNames(pool: BackendAddressPool): BackendAddressPool {
  const { loadBalancerBackendAddresses: all, ...rest } = pool;
  const addresses = all?.filter((one) => one.ipAddress !== undefined || one.loadBalancerFrontendIPConfiguration);
  if (all === undefined || addresses === undefined || addresses.length === all.length) return pool;
  return addresses.length === 0 ? rest : { ...rest, loadBalancerBackendAddresses: addresses };
}
