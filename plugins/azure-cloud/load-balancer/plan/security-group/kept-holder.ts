import type { LoadBalancingRule, SecurityRule } from "@azure/arm-network";
import { defaultLoadBalancerName, type Node, type Service, type ServicePort } from "cloud-controller-host/sdk";

import { isIPv6Name, isServiceFrontend } from "../../model/names.ts";
import { oncePer } from "../../model/once-per.ts";
import { choosesAddress, type Subject, wantedAddresses } from "../../service/subject.ts";
import type { Draft } from "../draft/draft.ts";
import { type Balancer, baseOf, rulesOn } from "../draft/edits.ts";
import { addressOf, statusAddresses } from "../draft/ingress.ts";
import { internalAddresses, isUnmanaged } from "../draft/nodes.ts";
import { indexPublicIPs, wantedPublicIPs } from "../public-ip/desired.ts";
import { accessOf } from "./access.ts";
import type { Holder } from "./edits.ts";
import { hasRulesFor, isInForce } from "./settled.ts";

/**
 * The holder of a Service that stays as it is: the plan is not about it, refuses it, or waits for its address. The status
 * of one that was synced a moment ago may not be visible yet: its load-balancing rules have its
 * addresses, too. Those of a refused Service have the ports that stay open for it. Where its wish is not in force, its
 * former one may be what denies the rest: that stays as well.
 */
export function keptHolder(draft: Draft, asked: Subject, behind?: Ruled): Holder {
  const wanted = asRuled(draft, asked);
  const used = (draft.frontends.get(wanted.key) ?? []).flatMap(({ frontend }) => addressOf(draft, frontend) ?? []);
  const ruled = behind?.addresses.get(wanted.base.toLowerCase()) ?? [];
  const shown = wanted.floatingIP && used.length + ruled.length === 0 ? shownHolder(rulesOf(draft))(wanted) : undefined;
  if (shown !== undefined && !shown.addresses.some((one) => behind?.ports.has(one))) return shown;
  const known = [...statusAddresses(wanted.service), ...used, ...ruled];
  const isSettled = behind === undefined || (known.length > 0 && !choosesAddress(wanted));
  const awaited = isSettled ? [] : awaitedAddresses(draft, wanted, behind);
  const addresses = [...new Set([...known, ...awaited, ...wanted.additionalAddresses])];
  const isAlone = behind === undefined || !addresses.some((one) => behind.ports.has(one));
  const subject = isAlone ? wanted : { ...wanted, ports: keptPorts(draft, wanted, addresses, behind) };
  const destinations = wanted.floatingIP ? addresses : nodeAddresses(draft.observed.nodes);
  const denied = wanted.floatingIP
    ? deniedOn(addresses, wanted, rulesOf(draft))
    : accessOf(wanted).denyAll
      ? destinations
      : [];
  return { subject, action: "keep", addresses, destinations, denied, left: [] };
}

/** A Service that has the addresses of its status, and nothing else on them; most are that. */
const shownHolder = oncePer((rules: readonly SecurityRule[]) =>
  oncePer((subject: Subject): Holder | undefined => {
    const known = statusAddresses(subject.service);
    if (known.length === 0 || choosesAddress(subject)) return undefined;
    const addresses = [...new Set([...known, ...subject.additionalAddresses])];
    return {
      subject,
      action: "keep",
      addresses,
      destinations: addresses,
      denied: deniedOn(addresses, subject, rules),
      left: [],
    };
  }),
);

/** Destinations of a Service that is not planned whose rest stays denied. */
const deniedOn = (addresses: readonly string[], subject: Subject, rules: readonly SecurityRule[]): readonly string[] =>
  accessOf(subject).denyAll ? addresses : addresses.filter((one) => !isInForce(rules, subject, one));

/** The Service without floating IP for as long as it has rules without: they send to the nodes. */
function asRuled({ balancers }: Draft, subject: Subject): Subject {
  if (!subject.floatingIP) return subject;
  const base = subject.base.toLowerCase();
  const kind = subject.internalInAnyCase ? "ofIPv4" : "all";
  const isDirect = balancers.values().some(({ current }) => current && directBases(current)[kind].has(base));
  return isDirect ? { ...subject, floatingIP: false } : subject;
}

/**
 * Bases of Services that have chosen rules without floating IP. Those on private IPv6 addresses have no choice, nor have
 * rules for IPv6 of a Service that is internal by its annotation, whatever address it has.
 */
const directBases = oncePer((balancer: Balancer): Readonly<Record<"all" | "ofIPv4", ReadonlySet<string>>> => {
  const frontends = (balancer.frontendIPConfigurations ?? []).filter(
    ({ publicIPAddress, privateIPAddressVersion }) =>
      publicIPAddress !== undefined || privateIPAddressVersion !== "IPv6",
  );
  const rules = frontends
    .flatMap(({ id = "" }) => rulesOn(balancer, id))
    .filter((one) => one.enableFloatingIP === false);
  const ofIPv4 = rules.filter(({ backendAddressPool }) => !isIPv6Name(backendAddressPool?.id ?? ""));
  return { all: new Set(rules.map(baseOf)), ofIPv4: new Set(ofIPv4.map(baseOf)) };
});

/**
 * Addresses that a Service has opened and does not have yet: its security rules may be written before its load balancer.
 * It will not get one on which another Service has one of its ports.
 */
const awaitedAddresses = (draft: Draft, subject: Subject, { ports }: Ruled): readonly string[] =>
  chosenAddresses(draft, subject).filter(
    (address) => hasOpened(draft, subject, address) && !subject.ports.some((one) => isAmong(ports.get(address), one)),
  );

/**
 * Ports that a Service has open: those of its load-balancing rules, and those that it asks for, if it has opened them and
 * no other one has them. A Service that is refused must not keep open what the one that has the port closes.
 */
function keptPorts(draft: Draft, wanted: Subject, addresses: readonly string[], { ports }: Ruled) {
  const own = ports.get(wanted.base.toLowerCase()) ?? [];
  if (!wanted.floatingIP) return [...wanted.ports, ...own.filter((one) => !isAmong(wanted.ports, one))];
  const opened = addresses.filter((address) => hasOpened(draft, wanted, address));
  const asked =
    opened.length === 0 ? [] : wanted.ports.filter((one) => !opened.some((at) => isAmong(ports.get(at), one)));
  return [...asked, ...own];
}

const rulesOf = ({ observed }: Draft): readonly SecurityRule[] => observed.securityGroup?.securityRules ?? [];

const hasOpened = (draft: Draft, subject: Subject, address: string): boolean =>
  hasRulesFor(rulesOf(draft), subject, address);

const isAmong = (ports: readonly ServicePort[] = [], one: ServicePort): boolean =>
  ports.some((port) => isSamePort(port, one));

const isSamePort = (left: ServicePort, right: ServicePort): boolean =>
  left.port === right.port && (left.protocol ?? "TCP") === (right.protocol ?? "TCP");

/** The existing addresses that a Service asks for. */
export const chosenAddresses = ({ observed, config }: Draft, subject: Subject): readonly string[] => [
  ...wantedAddresses(subject),
  ...(subject.internal ? [] : wantedPublicIPs(subject, indexPublicIPs(observed.publicIPs), config)).flatMap(
    ({ ipAddress }) => ipAddress ?? [],
  ),
];

export const nodeAddresses = oncePer((nodes: readonly Node[]): readonly string[] =>
  nodes.filter((node) => !isUnmanaged(node)).flatMap((node) => internalAddresses(node)),
);

/** Addresses and ports of load-balancing rules. */
interface Ruled {
  readonly addresses: ReadonlyMap<string, readonly string[]>;
  readonly ports: ReadonlyMap<string, readonly ServicePort[]>;
}

/**
 * By base of a Service, and ports by address as well; of other frontends it makes no difference which Service has them.
 * The rules of a Service that is gone, which a cache may still show, take no port from another one.
 */
export function ruledOn(draft: Draft, among: ReadonlySet<string>): Ruled {
  const present = basesOf(draft.observed.services);
  const isGone = (base: string): boolean => isServiceFrontend(base) && !present.has(base);
  const addresses = new Map<string, string[]>();
  const ports = new Map<string, ServicePort[]>();
  for (const { current = {} } of draft.balancers.values())
    for (const frontend of current.frontendIPConfigurations ?? []) {
      const address = addressOf(draft, frontend);
      if (address !== undefined && among.has(address))
        for (const rule of rulesOn(current, frontend.id ?? "")) {
          const base = baseOf(rule);
          addresses.getOrInsertComputed(base, () => []).push(address);
          const keys = isGone(base) ? [base] : [base, address];
          for (const key of keys) ports.getOrInsertComputed(key, () => []).push(portOf(rule));
        }
    }
  return { addresses, ports };
}

const basesOf = oncePer(
  (services: readonly Service[]): ReadonlySet<string> =>
    new Set(services.map((service) => defaultLoadBalancerName(service).toLowerCase())),
);

/** The Service port that a rule is for. A rule of all ports has port 0, which no security rule has. */
const portOf = ({ protocol = "", frontendPort = 0, backendPort = 0 }: LoadBalancingRule): ServicePort => ({
  port: frontendPort,
  nodePort: backendPort,
  protocol: protocol.toUpperCase(),
});
