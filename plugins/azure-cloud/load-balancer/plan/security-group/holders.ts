import { keyOf, type Service } from "cloud-controller-host/sdk";

import { lowerId } from "../../model/ids.ts";
import { oncePer } from "../../model/once-per.ts";
import { recordedAddresses } from "../../model/opened-record.ts";
import { isShared } from "../../service/identity.ts";
import { readSubject, type Subject } from "../../service/subject.ts";
import type { Draft, PlannedService } from "../draft/draft.ts";
import type { Balancer } from "../draft/edits.ts";
import { addressesOf, formerAddresses, isRuled } from "../draft/ingress.ts";
import { indexPublicIPs, wantedPublicIPs } from "../public-ip/desired.ts";
import { ownPublicIPs } from "../public-ip/plan.ts";
import type { Holder } from "./edits.ts";
import { chosenAddresses, keptHolder, nodeAddresses, ruledOn } from "./kept-holder.ts";

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

/**
 * Addresses that the Service chose or added when security rules were written for it, as this process or the Service's
 * record knows, or showed as its type changed.
 */
const openedAddresses = (draft: Draft, { key, service }: Subject): readonly string[] => [
  ...recordedAddresses(service),
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
