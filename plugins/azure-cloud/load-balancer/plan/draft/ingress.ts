import { defaultLoadBalancerName, type Service } from "cloud-controller-host/sdk";

import { canonicalAddress } from "../../model/addresses.ts";
import { lowerId } from "../../model/ids.ts";
import type { Observed } from "../../model/model.ts";
import { oncePer } from "../../model/once-per.ts";
import type { Subject } from "../../service/subject.ts";
import type { Draft, UsedFrontend } from "./draft.ts";
import { type Balancer, baseOf, exactBaseOf, rulesOn } from "./edits.ts";
import type { Frontend } from "./frontends.ts";

/** The address of a frontend after the plan, `undefined` while Azure has not chosen it. */
export function addressOf(draft: Draft, { publicIPAddress, privateIPAddress }: Frontend): string | undefined {
  if (publicIPAddress?.id === undefined) return privateIPAddress || undefined;
  return draft.publicIPs.get(lowerId(publicIPAddress))?.current?.ipAddress || undefined;
}

/** True if there are load-balancing rules on an address after the plan. */
export const isRuled = (draft: Draft, address: string): boolean =>
  draft.balancers
    .values()
    .some(({ current = {} }) =>
      current.frontendIPConfigurations?.some(
        (frontend) => addressOf(draft, frontend) === address && rulesOn(current, frontend.id ?? "").length > 0,
      ),
    );

/** Notes the addresses of the frontends that Services use, which the rest of the plan leaves as they are. */
export function draftAddresses(draft: Draft): void {
  for (const [key, used] of draft.frontends) {
    // Most Services have one: its position makes no difference.
    const sorted =
      used.length < 2 ? used : used.toSorted((one, other) => positionOf(draft, one) - positionOf(draft, other));
    const addresses = sorted.flatMap(({ frontend }) => addressOf(draft, frontend) ?? []);
    if (addresses.length === used.length && used.length > 0) draft.addresses.set(key, addresses);
  }
}

/** Addresses of a Service's frontends in the order of the load balancer, as upstream; `undefined` until all are known. */
export const addressesOf = ({ pending, addresses }: Draft, { key }: Subject): readonly string[] | undefined =>
  pending.has(key) ? undefined : addresses.get(key);

const positionOf = ({ balancers }: Draft, { balancer, frontend }: UsedFrontend): number =>
  balancers
    .get(balancer.toLowerCase())
    ?.current?.frontendIPConfigurations?.findIndex(({ name }) => name === frontend.name) ?? -1;

export const statusAddresses = oncePer(({ status }: Service): readonly string[] =>
  (status?.loadBalancer?.ingress ?? []).flatMap(({ ip }) => (ip === undefined ? [] : [canonicalAddress(ip) ?? ip])),
);

/**
 * Addresses that a Service has had: those of its observed frontends and of its status, which the API server clears when
 * the type of the Service changes.
 */
export const formerAddresses = ({ observed }: Draft, subject: Subject): readonly string[] =>
  formerBy(observed.loadBalancers)(observed.publicIPs)(subject);

const formerBy = oncePer((loadBalancers: Observed["loadBalancers"]) =>
  oncePer((publicIPs: Observed["publicIPs"]) =>
    oncePer((subject: Subject): readonly string[] => [
      ...new Set([...statusAddresses(subject.service), ...ownAddresses({ loadBalancers, publicIPs }, subject)]),
    ]),
  ),
);

/** Addresses of the frontends that Azure has of a Service, external or internal, whatever the Service wants now. */
export const observedAddresses = (observed: Observed, service: Service): readonly string[] =>
  ownAddresses(observed, { base: defaultLoadBalancerName(service) });

type PublicIP = Observed["publicIPs"][number];

/**
 * The frontends that each Service has or that its rules use, in their order, by its base name. For all Services at once:
 * every plan asks for each of them, while a load balancer seldom changes. Base names are in lower case; those of rules
 * are compared in any case.
 */
const frontendsByBase = oncePer((balancer: Balancer): ReadonlyMap<string, readonly Frontend[]> => {
  const { frontendIPConfigurations = [], loadBalancingRules } = balancer;
  const rulesById = Map.groupBy(loadBalancingRules ?? [], ({ frontendIPConfiguration = {} }) =>
    lowerId(frontendIPConfiguration),
  );
  const frontends = new Map<string, Frontend[]>();
  for (const frontend of frontendIPConfigurations) {
    const users = (rulesById.get(lowerId(frontend)) ?? []).map(baseOf);
    for (const base of new Set([exactBaseOf(frontend), ...users]))
      frontends.getOrInsertComputed(base, () => []).push(frontend);
  }
  return frontends;
});

const publicIPsById = oncePer(
  (publicIPs: readonly PublicIP[]): ReadonlyMap<string | undefined, PublicIP> =>
    new Map(publicIPs.map((one) => [one.id?.toLowerCase(), one])),
);

const ownAddresses = (
  { loadBalancers, publicIPs }: Pick<Observed, "loadBalancers" | "publicIPs">,
  { base }: Pick<Subject, "base">,
): readonly string[] =>
  loadBalancers
    .flatMap((balancer) => frontendsByBase(balancer).get(base) ?? [])
    .flatMap(
      ({ privateIPAddress, publicIPAddress = {} }) =>
        privateIPAddress || publicIPsById(publicIPs).get(lowerId(publicIPAddress))?.ipAddress || [],
    );
