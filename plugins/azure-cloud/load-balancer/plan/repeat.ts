import { isUnprovisioned } from "../../arm/provisioning-state.ts";
import type { ServiceKey } from "../model/model.ts";
import type { Draft, ResourceDraft } from "./draft/draft.ts";
import { servicesIn } from "./public-ip/owners.ts";

interface Provisioned {
  readonly provisioningState?: string;
}

/**
 * A resource whose last operation failed is written again as it is, for every Service that uses it: none of them is done
 * before ARM has provisioned it. What is written with an edit anyway needs no repetition. A user's public IP is the user's.
 */
export function repeatFailed(draft: Draft, securityGroup: ResourceDraft<Provisioned> | undefined): void {
  const ensured = new Set(draft.services.flatMap(({ subject, action }) => (action === "ensure" ? [subject.key] : [])));
  for (const [key, balancer] of draft.targets) repeat(balancer, [key]);
  for (const one of draft.publicIPs.values())
    repeat(
      one,
      servicesIn(one.observed?.tags).filter((key) => ensured.has(key)),
    );
  if (securityGroup !== undefined) repeat(securityGroup, [...ensured]);
}

function repeat(one: ResourceDraft<Provisioned>, services: readonly ServiceKey[]): void {
  if (services.length === 0 || !isUnprovisioned(one.observed) || one.current !== one.observed) return;
  one.repeats = true;
  for (const key of services) one.services.add(key);
}
