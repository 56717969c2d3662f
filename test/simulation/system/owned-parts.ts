import { type JsonObject, objectsAt, stringAt } from "../../../plugins/azure-cloud/json.ts";
import { type AzureView, idAt, isLocalPool, isOn, nameOf, portOf, propertiesOf, textsAt } from "./azure-view.ts";
import { withoutShard } from "./deployments.ts";

/** Something in Azure that only the product adds and removes. */
export interface OwnedPart {
  /** The Services that it is for, by the start of their names in Azure or by an address. */
  readonly services: readonly string[];
  /** The port of an address that it opens, as `1.2.3.4 TCP 80`: Services may share the address. */
  readonly port?: string;
  /** The node that it is for. */
  readonly node?: string;
  /** The load balancer that has the node as a member. */
  readonly balancer?: string;
  /** True if that is an internal one. */
  readonly internal?: boolean;
  /** Of the addresses of the members of its pool. */
  readonly family?: "IPv4" | "IPv6";
  /** True for a member of the pool of one Service, which has nodes with its Pods. */
  readonly local?: boolean;
}

const serviceIn = (name: string): string | undefined => /a[0-9a-f]{31}/u.exec(name)?.[0];

/** All that the product has in Azure, by a name that says what it is. */
export function ownedParts(view: AzureView): ReadonlyMap<string, OwnedPart> {
  return new Map([
    ...view.balancers.flatMap((balancer) => [...ofServices(balancer), ...members(view, balancer)]),
    ...view.publicIPs.flatMap((publicIP) => named(`public IP ${nameOf(publicIP)}`, nameOf(publicIP))),
    ...view.securityRules.flatMap((rule) => openings(rule)),
    ...view
      .ofType("routetables")
      .flatMap((table) => objectsAt(propertiesOf(table), "routes").flatMap((route) => routes(route))),
  ]);
}

type Entry = readonly [string, OwnedPart];

function named(what: string, name: string): readonly Entry[] {
  const service = serviceIn(name);
  return service === undefined ? [] : [[what, { services: [service] }]];
}

const ofServices = (balancer: JsonObject): readonly Entry[] =>
  ["frontendIPConfigurations", "loadBalancingRules"].flatMap((property) =>
    objectsAt(propertiesOf(balancer), property).flatMap((part) =>
      named(`${nameOf(balancer)}/${property}/${nameOf(part)}`, nameOf(part)),
    ),
  );

/** Of pools that rules of ours use. */
function members(view: AzureView, balancer: JsonObject): readonly Entry[] {
  const properties = propertiesOf(balancer);
  const users = Map.groupBy(objectsAt(properties, "loadBalancingRules"), (rule) =>
    idAt(propertiesOf(rule), "backendAddressPool"),
  );
  return objectsAt(properties, "backendAddressPools").flatMap((pool) => {
    const rules = users.get((stringAt(pool, "id") ?? "").toLowerCase()) ?? [];
    const services = rules.flatMap((rule) => serviceIn(nameOf(rule)) ?? []);
    if (services.length === 0) return [];
    const path = `${nameOf(balancer)}/${nameOf(pool)}`;
    const name = withoutShard(nameOf(balancer).replace(/-internal$/u, ""));
    const internal = nameOf(balancer).endsWith("-internal");
    const family: OwnedPart["family"] = /-ipv6$/iu.test(nameOf(pool)) ? "IPv6" : "IPv4";
    const of = { services, balancer: name, internal, family, local: isLocalPool(pool) };
    return view.membersOf(pool).map((node): Entry => [`member ${node} of ${path}`, { node, ...of }]);
  });
}

/** What a rule lets in: one part per source, address and port, for rules are merged and split. */
function openings(rule: JsonObject): readonly Entry[] {
  if (!nameOf(rule).startsWith("k8s-azure-lb")) return [];
  const properties = propertiesOf(rule);
  const { access, protocol } = properties;
  return textsAt(properties, "destinationAddressPrefix").flatMap((address) =>
    textsAt(properties, "sourceAddressPrefix").flatMap((source) =>
      textsAt(properties, "destinationPortRange").map((port): Entry => {
        const what = [access, protocol, "from", source, "to", address, port].map(String).join(" ");
        return [what, { services: [address], port: `${address} ${String(protocol).toUpperCase()} ${port}` }];
      }),
    ),
  );
}

function routes(route: JsonObject): readonly Entry[] {
  const [node, cidr] = nameOf(route).split("____");
  if (node === undefined || cidr === undefined) return [];
  return [[`route of ${node} to ${String(propertiesOf(route)["nextHopIpAddress"])}`, { node, services: [] }]];
}

/** The Service of each address, by the names of frontends and public IPs. */
export function addressOwners(view: AzureView): ReadonlyMap<string, string> {
  const publicIPs = new Map(view.publicIPs.map((one) => [String(one["id"]).toLowerCase(), one]));
  const ofFrontends = view.balancers.flatMap((balancer) =>
    objectsAt(propertiesOf(balancer), "frontendIPConfigurations").flatMap((frontend) => {
      const properties = propertiesOf(frontend);
      const publicIP = publicIPs.get(idAt(properties, "publicIPAddress"));
      const address = stringAt(properties, "privateIPAddress") ?? stringAt(propertiesOf(publicIP), "ipAddress");
      const service = serviceIn(nameOf(frontend));
      return address === undefined || service === undefined ? [] : [[address, service] as const];
    }),
  );
  const ofPublicIPs = [...publicIPs.values()].flatMap((publicIP) => {
    const [address, service] = [stringAt(propertiesOf(publicIP), "ipAddress"), serviceIn(nameOf(publicIP))];
    return address === undefined || service === undefined ? [] : [[address, service] as const];
  });
  return new Map([...ofPublicIPs, ...ofFrontends]);
}

/** The Service of each port of an address, as `1.2.3.4 TCP 80`, by its load-balancing rules. */
export function portOwners(view: AzureView): ReadonlyMap<string, string> {
  return new Map(
    view.balancers.flatMap((balancer) => {
      const frontends = objectsAt(propertiesOf(balancer), "frontendIPConfigurations");
      return objectsAt(propertiesOf(balancer), "loadBalancingRules").flatMap((rule) => {
        const frontend = frontends.find((one) => isOn(rule, one));
        const service = serviceIn(nameOf(rule));
        if (frontend === undefined || service === undefined) return [];
        return [[`${view.addressOf(propertiesOf(frontend))} ${portOf(rule)}`, service] as const];
      });
    }),
  );
}
