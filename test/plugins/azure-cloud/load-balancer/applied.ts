import type { LoadBalancer, PublicIPAddress } from "@azure/arm-network";

import type { Observed, PoolMember } from "../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import type { Plan, UpdateMembers, Write } from "../../../../plugins/azure-cloud/load-balancer/model/plan-model.ts";

const sameId = (left: string | undefined, right: string): boolean => left?.toLowerCase() === right.toLowerCase();

/** The list with `item` in place of the one with its id, or at its end. */
function replaced<T extends { id?: string }>(list: readonly T[], id: string, item: T): readonly T[] {
  const index = list.findIndex((one) => sameId(one.id, id));
  return index < 0 ? [...list, item] : list.with(index, item);
}

const without = <T extends { id?: string }>(list: readonly T[], id: string): readonly T[] =>
  list.filter((one) => !sameId(one.id, id));

/** The state after ARM has carried out every write of the plan: ids, allocated addresses and back-references filled in. */
export function applied(observed: Observed, plan: Plan): Observed {
  const writes = plan.stages.flatMap((stage) => stage.writes);
  return withReferences(writes.reduce(applyWrite, observed));
}

function applyWrite(observed: Observed, write: Write): Observed {
  switch (write.kind) {
    case "put-public-ip":
      return { ...observed, publicIPs: replaced(observed.publicIPs, write.id, allocated(observed, write)) };
    case "delete-public-ip":
      return { ...observed, publicIPs: without(observed.publicIPs, write.id) };
    case "put-load-balancer":
      return { ...observed, loadBalancers: replaced(observed.loadBalancers, write.id, filled(write.id, write.body)) };
    case "delete-load-balancer":
      return { ...observed, loadBalancers: without(observed.loadBalancers, write.id) };
    case "put-security-group":
      return { ...observed, securityGroup: { ...write.body, id: write.id } };
    case "put-private-link-service":
      return {
        ...observed,
        privateLinkServices: replaced(observed.privateLinkServices, write.id, { ...write.body, id: write.id }),
      };
    case "delete-private-link-service":
      return { ...observed, privateLinkServices: without(observed.privateLinkServices, write.id) };
    case "put-subnet":
      return { ...observed, subnets: new Map([...observed.subnets, [write.name.toLowerCase(), write.body]]) };
    case "update-members":
      return { ...observed, poolMembers: membersAfter(observed, write) };
    default:
      return { ...observed, poolMembers: withoutPools(observed, write.poolIds) };
  }
}

function withoutPools({ poolMembers }: Observed, ids: readonly string[]): Observed["poolMembers"] {
  const released = new Set(ids.map((id) => id.toLowerCase()));
  return new Map([...poolMembers].filter(([id]) => !released.has(id)));
}

function allocated(observed: Observed, { id, body }: Extract<Write, { kind: "put-public-ip" }>): PublicIPAddress {
  const taken = new Set(observed.publicIPs.map((one) => one.ipAddress));
  const addressAt = (index: number): string =>
    body.publicIPAddressVersion === "IPv6" ? `2603:1030::${index}` : `20.0.${index >> 8}.${index & 255}`;
  let next = 1;
  while (taken.has(addressAt(next))) next += 1;
  return { ...body, id, ipAddress: body.ipAddress ?? addressAt(next) };
}

function filled(id: string, body: LoadBalancer): LoadBalancer {
  const at = (kind: string, name: string | undefined): string => `${id}/${kind}/${name ?? ""}`;
  const frontends = (body.frontendIPConfigurations ?? []).map((one, index) => ({
    ...one,
    id: at("frontendIPConfigurations", one.name),
    ...(one.subnet === undefined ? {} : { privateIPAddress: one.privateIPAddress ?? privateAddress(id, index + 10) }),
  }));
  return {
    ...body,
    id,
    frontendIPConfigurations: frontends,
    backendAddressPools: (body.backendAddressPools ?? []).map((one) => ({
      ...one,
      id: at("backendAddressPools", one.name),
    })),
    loadBalancingRules: (body.loadBalancingRules ?? []).map((one) => ({
      ...one,
      id: at("loadBalancingRules", one.name),
    })),
    probes: (body.probes ?? []).map((one) => ({ ...one, id: at("probes", one.name) })),
  };
}

const privateAddress = (id: string, index: number): string =>
  `10.${240 + (index >> 8)}.${(id.length + index - 10) % 250}.${index & 255}`;

function membersAfter(observed: Observed, { id, join, leave }: UpdateMembers): Observed["poolMembers"] {
  const left = new Set(leave.map((one) => one.toLowerCase()));
  const stay = (observed.poolMembers.get(id.toLowerCase()) ?? []).filter(
    ({ ipConfigurationId, node }) => !left.has(ipConfigurationId.toLowerCase()) && !join.includes(node ?? ""),
  );
  const joined = join.map((node): PoolMember => ({
    ipConfigurationId: `/instances/${node}/ipConfigurations/ipconfig0`,
    node,
    gone: false,
    complete: true,
  }));
  return new Map([...observed.poolMembers, [id.toLowerCase(), [...stay, ...joined]]]);
}

/** Public IPs refer back to the frontend that uses them. */
function withReferences(observed: Observed): Observed {
  const users = new Map<string, string>();
  for (const { frontendIPConfigurations = [] } of observed.loadBalancers)
    for (const { id, publicIPAddress } of frontendIPConfigurations)
      if (id !== undefined && publicIPAddress?.id !== undefined) users.set(publicIPAddress.id.toLowerCase(), id);
  const publicIPs = observed.publicIPs.map((one) => {
    const user = users.get(one.id?.toLowerCase() ?? "");
    if (user !== undefined) return { ...one, ipConfiguration: { id: user } };
    const { ipConfiguration, ...free } = one;
    return ipConfiguration?.id?.includes("/loadBalancers/") ? free : one;
  });
  return { ...observed, publicIPs };
}
