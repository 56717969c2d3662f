import { defaultLoadBalancerName, type Service } from "cloud-controller-host/sdk";

import { canonicalAddress } from "../../model/addresses.ts";
import { lowerId } from "../../model/ids.ts";
import type { Observed } from "../../model/model.ts";
import { hasBase, hasBaseInAnyCase } from "../../model/names.ts";
import { oncePer } from "../../model/once-per.ts";
import type { Subject } from "../../service/subject.ts";
import type { Draft, UsedFrontend } from "./draft.ts";
import { type Balancer, namedFor } from "./edits.ts";
import type { Frontend } from "./frontends.ts";

/** The address of a frontend after the plan, `undefined` while Azure has not chosen it. */
export function addressOf(draft: Draft, { publicIPAddress, privateIPAddress }: Frontend): string | undefined {
  if (publicIPAddress?.id === undefined) return privateIPAddress || undefined;
  return draft.publicIPs.get(lowerId(publicIPAddress))?.current?.ipAddress || undefined;
}

/** Addresses of a Service's frontends in the order of the load balancer, as upstream; `undefined` until all are known. */
export function addressesOf(draft: Draft, { key }: Subject): readonly string[] | undefined {
  if (draft.pending.has(key)) return undefined;
  const used = (draft.frontends.get(key) ?? []).toSorted(
    (one, other) => positionOf(draft, one) - positionOf(draft, other),
  );
  const addresses = used.flatMap(({ frontend }) => addressOf(draft, frontend) ?? []);
  return addresses.length === used.length && used.length > 0 ? addresses : undefined;
}

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
export function formerAddresses(draft: Draft, subject: Subject): readonly string[] {
  const publicIPOf = (id: string): PublicIP | undefined => draft.publicIPs.get(id)?.observed;
  return [...new Set([...statusAddresses(subject.service), ...ownAddresses(draft.observed, subject, publicIPOf)])];
}

const frontendsById = oncePer(
  ({ frontendIPConfigurations = [] }: Balancer): ReadonlyMap<string, Frontend> =>
    new Map(frontendIPConfigurations.map((frontend) => [lowerId(frontend), frontend])),
);

/** Addresses of a Service's load-balancing rules before the plan or after it: its status may not show them yet. */
export const ruledAddresses = (
  { balancers, publicIPs }: Draft,
  { base }: Subject,
  when: "observed" | "current",
): readonly string[] =>
  [...balancers.values()].flatMap(({ [when]: balancer = {} }) =>
    namedFor(balancer.loadBalancingRules, base).flatMap(({ frontendIPConfiguration = {} }) => {
      const { privateIPAddress, publicIPAddress = {} } =
        frontendsById(balancer).get(lowerId(frontendIPConfiguration)) ?? {};
      return privateIPAddress || publicIPs.get(lowerId(publicIPAddress))?.observed?.ipAddress || [];
    }),
  );

/** Addresses of the frontends that Azure has of a Service, external or internal, whatever the Service wants now. */
export function observedAddresses(observed: Observed, service: Service): readonly string[] {
  const publicIPs = new Map(observed.publicIPs.map((one) => [one.id?.toLowerCase(), one]));
  return ownAddresses(observed, { base: defaultLoadBalancerName(service) }, (id) => publicIPs.get(id));
}

type PublicIP = Observed["publicIPs"][number];

/**
 * Addresses of the frontends that a Service has or that its rules use. `publicIPOf` finds a public IP by its lower-case
 * id.
 */
const ownAddresses = (
  { loadBalancers }: Observed,
  { base }: Pick<Subject, "base">,
  publicIPOf: (id: string) => PublicIP | undefined,
): readonly string[] =>
  loadBalancers
    .flatMap(({ frontendIPConfigurations = [], loadBalancingRules = [] }) => {
      const rules = loadBalancingRules.filter(({ name }) => hasBaseInAnyCase(name, base));
      const used = new Set(rules.map(({ frontendIPConfiguration }) => frontendIPConfiguration?.id?.toLowerCase()));
      return frontendIPConfigurations.filter(
        ({ name, id }) => hasBase(name, base) || (id !== undefined && used.has(id.toLowerCase())),
      );
    })
    .map(
      ({ privateIPAddress, publicIPAddress }) =>
        privateIPAddress || publicIPOf(publicIPAddress?.id?.toLowerCase() ?? "")?.ipAddress || "",
    )
    .filter((address) => address !== "");
