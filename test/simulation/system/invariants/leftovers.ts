import { isIP } from "node:net";

import { defaultLoadBalancerName, keyOf, type Service } from "cloud-controller-host/sdk";

import { type JsonObject, objectAt, objectsAt, stringAt } from "../../../../plugins/azure-cloud/json.ts";
import { addressesOf } from "../../../kit/services.ts";
import {
  type AzureView,
  familiesOf,
  idAt,
  isLocalPool,
  isOn,
  nameOf,
  ownersOf,
  propertiesOf,
  textsAt,
} from "../azure-view.ts";
import { portOwners } from "../owned-parts.ts";

/** Parts that bear the name, the tag or the address of a Service that does not want a load balancer. */
export function leftoversIn(view: AzureView, wanting: readonly Service[]): readonly string[] {
  const bases = wanting.map((service) => defaultLoadBalancerName(service));
  const keys = new Set(wanting.map(keyOf));
  const isLeft = (name: string): boolean =>
    /^a[0-9a-f]{31}/u.test(name) && !bases.some((base) => name.startsWith(base));
  const links = view.ofType("privatelinkservices").filter((link) => {
    const owner = stringAt(objectAt(link, "tags"), "k8s-azure-owner-service");
    return owner !== undefined && !keys.has(owner);
  });
  const addresses = view.publicIPs.filter((publicIP) => {
    const owners = ownersOf(publicIP);
    const isOfNone = owners.length === 0 && isLeft(nameOf(publicIP).replace("kubernetes-", ""));
    return isOfNone || owners.some((owner) => !keys.has(owner));
  });
  return [
    ...links.map((link) => `private link service ${nameOf(link)}`),
    ...view.balancers.flatMap((balancer) => leftIn(balancer, isLeft)),
    ...addresses.map((publicIP) => `public IP ${nameOf(publicIP)}`),
    ...rulesForNone(view, wanting, keys).map((rule) => `security rule ${nameOf(rule)}`),
  ];
}

/** Pools of single Services that no rule uses. */
export const leftPools = (view: AzureView): readonly string[] =>
  view.balancers.flatMap((balancer) => {
    const properties = propertiesOf(balancer);
    const used = new Set(
      objectsAt(properties, "loadBalancingRules").map((rule) => idAt(propertiesOf(rule), "backendAddressPool")),
    );
    return objectsAt(properties, "backendAddressPools")
      .filter((pool) => isLocalPool(pool) && !used.has((stringAt(pool, "id") ?? "").toLowerCase()))
      .map((pool) => `${nameOf(balancer)}/backendAddressPools/${nameOf(pool)}`);
  });

/** A frontend stays as long as Services use it that are not left over. */
function leftIn(balancer: JsonObject, isLeft: (name: string) => boolean): readonly string[] {
  const properties = propertiesOf(balancer);
  const users = objectsAt(properties, "loadBalancingRules").filter((rule) => !isLeft(nameOf(rule)));
  return ["frontendIPConfigurations", "loadBalancingRules", "probes"].flatMap((property) =>
    objectsAt(properties, property)
      .filter((part) => isLeft(nameOf(part)) && !users.some((rule) => isOn(rule, part)))
      .map((part) => `${nameOf(balancer)}/${property}/${nameOf(part)}`),
  );
}

/** Security rules of ours with an address that no Service has. */
function rulesForNone(view: AzureView, wanting: readonly Service[], keys: ReadonlySet<string>): readonly JsonObject[] {
  // A Service that is refused keeps the addresses, which it shows, and the rules of its last accepted settings.
  const kept = view.publicIPs.filter((publicIP) => ownersOf(publicIP).some((owner) => keys.has(owner)));
  const given = wanting.flatMap(({ metadata }) => Object.entries(metadata?.annotations ?? {}));
  const valuesOf = (suffix: string) => given.flatMap(([key, value]) => (key.endsWith(suffix) ? value.split(",") : []));
  const served = new Set([
    ...valuesOf("/azure-additional-public-ips"),
    ...wanting.flatMap(addressesOf),
    ...(hasFloatingIPDisabled(view, wanting) ? view.nodeNames.keys() : []),
    ...wanting.flatMap((service) => familiesOf(service).map((family) => view.serviceOf(service, family).address)),
    ...kept.map((publicIP) => stringAt(propertiesOf(publicIP), "ipAddress")),
  ]);
  return view.securityRules.filter((rule) => {
    const destinations = textsAt(propertiesOf(rule), "destinationAddressPrefix");
    return nameOf(rule).startsWith("k8s-azure-lb") && destinations.some((one) => isIP(one) > 0 && !served.has(one));
  });
}

/** What is open on nodes may be theirs: they ask for it, or did before they were refused. */
function hasFloatingIPDisabled(view: AzureView, wanting: readonly Service[]): boolean {
  const names = wanting.flatMap(({ metadata }) => Object.keys(metadata?.annotations ?? {}));
  if (names.some((name) => name.endsWith("/azure-disable-load-balancer-floating-ip"))) return true;
  const bases = wanting.map((service) => defaultLoadBalancerName(service));
  const rules = view.balancers.flatMap((balancer) => objectsAt(propertiesOf(balancer), "loadBalancingRules"));
  return rules.some(
    (rule) => propertiesOf(rule)["enableFloatingIP"] === false && bases.some((base) => nameOf(rule).startsWith(base)),
  );
}

/** Ports of addresses that no Service with the address has or asks for, and none of the `forgiven` ones may have left. */
export function leftOpenings(
  view: AzureView,
  wanting: readonly Service[],
  forgiven: readonly Service[] = [],
): readonly string[] {
  const bases = new Set(wanting.map(defaultLoadBalancerName));
  // A Service that is refused may have rules of several load balancers.
  const ruled = [...portOwners(view)].flatMap(([port, owner]) => (bases.has(owner) ? [port] : []));
  const portsOf = ({ spec }: Service): readonly string[] =>
    (spec?.ports ?? []).map(({ protocol = "TCP", port }) => `${protocol} ${port}`);
  const asked = wanting.flatMap((service) => {
    const { address } = view.serviceOf(service, "IPv4");
    return portsOf(service).map((port) => `${address} ${port}`);
  });
  const known = new Set([...ruled, ...asked]);
  const excused = new Set(forgiven.flatMap(portsOf));
  const addresses = new Set([...known].map((port) => port.split(" ")[0]));
  return [...addresses].flatMap((address) =>
    view.openedAt(address).flatMap((opening) => {
      const [port = ""] = opening.split(" from ");
      return known.has(`${address} ${port}`) || excused.has(port)
        ? []
        : [`opening ${opening} of ${address} is left over`];
    }),
  );
}
