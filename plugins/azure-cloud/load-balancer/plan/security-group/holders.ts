import type { LoadBalancingRule, SecurityRule } from "@azure/arm-network";
import { defaultLoadBalancerName, keyOf, type Node, type Service, type ServicePort } from "cloud-controller-host/sdk";

import { lowerId } from "../../model/ids.ts";
import { isIPv6Name, isServiceFrontend } from "../../model/names.ts";
import { oncePer } from "../../model/once-per.ts";
import { isShared } from "../../service/identity.ts";
import { choosesAddress, readSubject, type Subject, wantedAddresses } from "../../service/subject.ts";
import type { Draft, PlannedService } from "../draft/draft.ts";
import { type Balancer, baseOf, rulesOn } from "../draft/edits.ts";
import { addressesOf, addressOf, formerAddresses, isRuled, statusAddresses } from "../draft/ingress.ts";
import { internalAddresses, isUnmanaged } from "../draft/nodes.ts";
import { indexPublicIPs, wantedPublicIPs } from "../public-ip/desired.ts";
import { ownPublicIPs } from "../public-ip/plan.ts";
import { accessOf } from "./access.ts";
import type { Holder } from "./edits.ts";
import { hasRulesFor, isInForce } from "./settled.ts";

/** Addresses of the nodes behind a Service's pools after the plan. */
export type BackendAddresses = (subject: Subject) => readonly string[];

/** All Services of the cluster, as the security group is shared by them. */
export function holdersOf(draft: Draft, backendAddresses: BackendAddresses): readonly Holder[] {
  const holders = draft.services.map((planned) => holderOf(draft, planned, backendAddresses));
  const others = othersOf(draft);
  if (others.length === 0) return holders;
  const ruled = ruledOn(draft, new Set(holders.flatMap(({ addresses, left }) => [...addresses, ...left])));
  return [...holders, ...others.map((one) => keptHolder(draft, readSubject(one, draft.config).subject, ruled))];
}

/** The existing addresses that a Service asks for. */
export const chosenAddresses = ({ observed, config }: Draft, subject: Subject): readonly string[] => [
  ...wantedAddresses(subject),
  ...(subject.internal ? [] : wantedPublicIPs(subject, indexPublicIPs(observed.publicIPs), config)).flatMap(
    ({ ipAddress }) => ipAddress ?? [],
  ),
];

/** Addresses that the Service chose or added when security rules were written for it, or showed as its type changed. */
const openedAddresses = (draft: Draft, { key }: Subject): readonly string[] => [
  ...(draft.observed.opened?.get(key) ?? [])
    .map((former) => readSubject(former, draft.config).subject)
    .flatMap((one) => [...chosenAddresses(draft, one), ...one.additionalAddresses]),
  ...(draft.observed.cleared?.get(key) ?? []),
];

/**
 * Addresses of the public IPs that a Service owns. They are deleted last: a change of its type in the midst of a move clears
 * the status, when the frontend that had the address is gone as well.
 */
const ownedAddresses = (draft: Draft, subject: Subject): readonly string[] =>
  ownPublicIPs(draft, subject).flatMap(({ ipAddress }) => ipAddress || []);

/** Those of the public IPs that the plan deletes, to create them again, for example with other IP tags. */
const releasedAddresses = (draft: Draft, subject: Subject): readonly string[] =>
  ownPublicIPs(draft, subject).flatMap((one) =>
    draft.publicIPs.get(lowerId(one))?.current === undefined ? (one.ipAddress ?? []) : [],
  );

/**
 * Addresses of the public IPs that a Service names and that nothing has any more: its frontend may have been removed while
 * the security group could not be written, when the API server has cleared the status with the type.
 */
const freeAddresses = ({ observed, config }: Draft, subject: Subject): readonly string[] =>
  wantedPublicIPs(subject, indexPublicIPs(observed.publicIPs), config).flatMap(({ ipAddress, ipConfiguration }) =>
    ipConfiguration === undefined ? (ipAddress ?? []) : [],
  );

/** The Services of the cluster that are not planned. */
function othersOf({ services, observed }: Draft): readonly Service[] {
  const objects = new Set(services.map(({ subject }) => subject.service));
  const left = observed.services.filter((service) => !objects.has(service));
  if (left.length === 0) return left;
  const ensured = new Set(services.flatMap(({ subject, action }) => (action === "ensure" ? [subject.key] : [])));
  const planned = new Set(objects.values().map(identityOf));
  return left.filter((service) => !ensured.has(keyOf(service)) && !planned.has(identityOf(service)));
}

/** Another Service may have been created under the name of one that is deleted. */
const identityOf = (service: Service): string => `${keyOf(service)} ${service.metadata?.uid}`;

/** Addresses and ports of load-balancing rules. */
interface Ruled {
  readonly addresses: ReadonlyMap<string, readonly string[]>;
  readonly ports: ReadonlyMap<string, readonly ServicePort[]>;
}

/**
 * By base of a Service, and ports by address as well; of other frontends it makes no difference which Service has them.
 * The rules of a Service that is gone, which a cache may still show, take no port from another one.
 */
function ruledOn(draft: Draft, among: ReadonlySet<string>): Ruled {
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

/** A holder, and the addresses of the frontends of its Service. */
interface Known {
  readonly holder: Holder;
  readonly frontends: readonly string[];
}

/** By what tells of the addresses that a Service has had. */
const knownBy = oncePer((_loadBalancers: readonly Balancer[]) =>
  oncePer((_publicIPs: Draft["observed"]["publicIPs"]) => new WeakMap<Subject, Known>()),
);

/** Most Services have the addresses that they had in the plan before. */
function holderOf(draft: Draft, planned: PlannedService, backendAddresses: BackendAddresses): Holder {
  const { subject, action } = planned;
  const isAlone = action === "ensure" && subject.floatingIP && !isShared(draft);
  const frontends = isAlone && openedAddresses(draft, subject).length === 0 ? addressesOf(draft, subject) : undefined;
  if (frontends === undefined) return plannedHolder(draft, planned, backendAddresses);
  const known = knownBy(draft.observed.loadBalancers)(draft.observed.publicIPs);
  const before = known.get(subject);
  if (before?.frontends.length === frontends.length && frontends.every((one, at) => one === before.frontends[at]))
    return before.holder;
  const holder = plannedHolder(draft, planned, backendAddresses);
  known.set(subject, { holder, frontends });
  return holder;
}

function plannedHolder(draft: Draft, { subject, action }: PlannedService, backendAddresses: BackendAddresses): Holder {
  const told = formerAddresses(draft, subject);
  const own = action === "delete" || isShared(draft) ? ownedAddresses(draft, subject) : [];
  const free = action === "delete" ? freeAddresses(draft, subject) : [];
  const former = [...new Set([...told, ...own, ...free, ...openedAddresses(draft, subject)])];
  const addresses = action === "delete" ? former : addressesOf(draft, subject);
  if (addresses === undefined) return pendingHolder(draft, subject, former);
  // In a shared group, what opens before a frontend or the status tells its address could not be found again.
  if (action === "ensure" && isShared(draft) && isMoving(draft, subject, told, addresses)) {
    draft.pending.add(subject.key);
    return pendingHolder(draft, subject, former);
  }
  const behind = (): readonly string[] =>
    action === "delete" ? nodeAddresses(draft.observed.nodes) : backendAddresses(subject);
  const targets = subject.floatingIP ? addresses : behind();
  const additional = subject.additionalAddresses;
  const has = new Set([...addresses, ...additional]);
  const destinations = [...targets, ...additional];
  // One that was deleted without floating IP has left what it opened on its addresses before it gave that up.
  const left = former.filter((one) => !(action === "delete" ? destinations.includes(one) : has.has(one)));
  return { subject, action, addresses: [...has], destinations, denied: [], left };
}

/** True if a load balancer is to be written before Azure shows that the Service has its addresses. */
const isMoving = (draft: Draft, { key }: Subject, told: readonly string[], addresses: readonly string[]): boolean =>
  !addresses.every((one) => told.includes(one)) &&
  (draft.frontends.get(key) ?? []).some(({ balancer }) =>
    draft.balancers.get(balancer.toLowerCase())?.services.has(key),
  );

/**
 * Without an address yet, nothing is opened. A former one that this plan leaves to others, or in a group that deployments
 * share, is closed with it: once its load-balancing rules are gone, nothing but its status would tell of that address, and
 * it may never have shown it. One whose public IP is created again is closed before that, as a change of type clears the
 * status; one that a Service leaves for an internal address stays open until its load balancer is written.
 */
function pendingHolder(draft: Draft, subject: Subject, former: readonly string[]): Holder {
  const kept = keptHolder(draft, subject);
  const released = isShared(draft) && !subject.internal ? releasedAddresses(draft, subject) : [];
  const isLeft = (one: string): boolean => !kept.addresses.includes(one) || released.includes(one);
  const left = former.filter((one) => isLeft(one) && (isShared(draft) || isRuled(draft, one)));
  return { ...kept, left };
}

export const nodeAddresses = oncePer((nodes: readonly Node[]): readonly string[] =>
  nodes.filter((node) => !isUnmanaged(node)).flatMap((node) => internalAddresses(node)),
);

/**
 * The status of a Service that was synced a moment ago may not be visible yet: its load-balancing rules have its
 * addresses, too. Those of a refused Service have the ports that stay open for it. Where its wish is not in force, its
 * former one may be what denies the rest: that stays as well.
 */
function keptHolder(draft: Draft, asked: Subject, behind?: Ruled): Holder {
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
