import { isUnprovisioned } from "../../arm/errors.ts";
import { canonicalAddress } from "../model/addresses.ts";
import type { ServiceKey } from "../model/model.ts";
import { isServiceFrontend } from "../model/names.ts";
import type { Draft, ResourceDraft } from "./draft/draft.ts";
import { addressesOf, statusAddresses } from "./draft/ingress.ts";
import { servicesIn } from "./public-ip/owners.ts";

interface Provisioned {
  readonly provisioningState?: string;
}

/**
 * Writes a resource whose last operation failed again, unchanged, for every Service that uses it: none of them is done
 * before ARM has provisioned it. One that is written with an edit anyway needs no repetition, and a user's public IP is
 * left to the user. A Service that is being deleted counts as a user of shared resources while its status shows an
 * address, and one that moves while its status shows an address other than its new ones: the failed write may be the one
 * that removed its parts. A change of its type clears the status, so the failed writes of a Service count as well.
 */
export function repeatFailed(draft: Draft, securityGroup: ResourceDraft<Provisioned> | undefined): void {
  const isFailed = ({ observed }: ResourceDraft<Provisioned>): boolean => isUnprovisioned(observed);
  const balancers = [...draft.balancers.values()].filter(isFailed);
  const publicIPs = [...draft.publicIPs.values()].filter(isFailed);
  const failedGroup = securityGroup !== undefined && isFailed(securityGroup) ? securityGroup : undefined;
  // Most plans: no Service needs a look.
  if (balancers.length === 0 && publicIPs.length === 0 && failedGroup === undefined) return;
  const ensured = new Set(draft.services.flatMap(({ subject, action }) => (action === "ensure" ? [subject.key] : [])));
  const leaving = draft.services.flatMap(({ subject, action }) => {
    const own = action === "delete" ? [] : [...(addressesOf(draft, subject) ?? []), ...subject.additionalAddresses];
    const wanted = own.map(canonicalAddress);
    return statusAddresses(subject.service).some((address) => !wanted.includes(address)) ? [subject.key] : [];
  });
  const failedOn = (id: string): readonly ServiceKey[] =>
    draft.services.flatMap(({ subject, failed }) => (failed?.has(id.toLowerCase()) === true ? [subject.key] : []));
  for (const [key, balancer] of draft.targets) repeat(balancer, [key]);
  for (const one of balancers) {
    // Without a frontend of Services it may be a user's, unless a write of this process has failed there.
    const isOwn = one.observed?.frontendIPConfigurations?.some(({ name }) => isServiceFrontend(name));
    repeat(one, [...(isOwn ? leaving : []), ...failedOn(one.id)]);
  }
  for (const one of publicIPs)
    repeat(
      one,
      servicesIn(one.observed?.tags).filter((key) => ensured.has(key)),
    );
  if (failedGroup !== undefined) repeat(failedGroup, [...ensured, ...leaving, ...failedOn(failedGroup.id)]);
}

function repeat(one: ResourceDraft<Provisioned>, services: readonly ServiceKey[]): void {
  if (services.length === 0 || !isUnprovisioned(one.observed) || one.current !== one.observed) return;
  one.repeats = true;
  for (const key of services) one.services.add(key);
}
