import type { LoadBalancingRule } from "@azure/arm-network";
import { defaultLoadBalancerName, isBeingDeleted } from "cloud-controller-host/sdk";

import { sameId } from "../../model/ids.ts";
import type { Family } from "../../model/model.ts";
import { hasBase, hasBaseInAnyCase, isInternalName } from "../../model/names.ts";
import { isOfAnotherController } from "../../service/identity.ts";
import { readSubject, type Subject } from "../../service/subject.ts";
import { addEvent, type Draft, edit, type PlannedService, type ResourceDraft } from "../draft/draft.ts";
import {
  type Balancer,
  isOrphan,
  namedFor,
  usersOf,
  withoutFrontends,
  withoutProbes,
  withoutRules,
} from "../draft/edits.ts";
import { type Frontend, frontendsOf, type FrontendTarget, isChanged, isPrimary } from "../draft/frontends.ts";
import { deleteLinks } from "../private-link/remove.ts";
import { ruleNames } from "./rules.ts";

type BalancerDraft = ResourceDraft<Balancer>;

export const isOwnRule =
  ({ base }: Subject) =>
  ({ name }: Readonly<LoadBalancingRule>): boolean =>
    hasBaseInAnyCase(name, base);

/**
 * Removes a Service from a load balancer: its rules and probes, and its frontends unless others use them. Rules of all
 * Services go before the first frontend does, so that the order of Services makes no difference.
 */
export function removeRules(one: BalancerDraft, { subject }: PlannedService): readonly string[] {
  const { current } = one;
  if (current === undefined) return [];
  const rules = namedFor(current.loadBalancingRules, subject.base);
  const probes = namedFor(current.probes, subject.base);
  edit(one, subject.key, (balancer) => withoutProbes(withoutRules(balancer, rules), probes));
  return rules.flatMap((rule) => rule.frontendIPConfiguration?.id ?? []);
}

/**
 * Removes rules of ports and families that the Service no longer has, and those on frontends that it leaves, so that they
 * do not keep the frontends. Rules that only differ are replaced later. Returns the frontends that it leaves.
 */
export function removeStaleRules(
  draft: Draft,
  one: BalancerDraft,
  subject: Subject,
  targets: ReadonlyMap<Family, FrontendTarget>,
): readonly string[] {
  const own = namedFor(one.current?.loadBalancingRules, subject.base);
  if (own.length === 0) return [];
  const named = ruleNames(subject, draft.config);
  const isExpected = (name: string): boolean =>
    targets.keys().some((family) => named.get(family)?.has(name.toLowerCase()));
  const kept = new Set(
    [...targets].flatMap(([family, target]) =>
      frontendsOf(one.current ?? {}, subject, family, target)
        .filter((frontend) => !isChanged(frontend, subject, family, target))
        .map(({ id = "" }) => id.toLowerCase()),
    ),
  );
  const isStale = ({ name = "", frontendIPConfiguration }: Readonly<LoadBalancingRule>): boolean =>
    !isExpected(name) || !kept.has((frontendIPConfiguration?.id ?? "").toLowerCase());
  const stale = own.filter(isStale);
  edit(one, subject.key, (balancer) => withoutRules(balancer, stale));
  return stale
    .flatMap(({ frontendIPConfiguration }) => frontendIPConfiguration?.id ?? [])
    .filter((id) => !kept.has(id.toLowerCase()));
}

/**
 * Removes frontends of other Services that a Service on the load balancer was the last to use: the one that created them
 * is not here any more. Nothing else would ever remove them, nor their public IPs.
 */
export function removeLeft(draft: Draft, one: BalancerDraft, subject: Subject, left: readonly string[]): void {
  const { current = {} } = one;
  const isLeft = (frontend: Frontend): boolean =>
    left.some((id) => sameId(id, frontend.id)) &&
    !isPrimary(frontend, subject) &&
    isOrphan(current, frontend) &&
    !hasCreator(draft, one, frontend);
  if (left.length > 0) removeUnused(draft, one, subject, (current.frontendIPConfigurations ?? []).filter(isLeft));
}

/**
 * True if the Service that a frontend is named after may still want it on the load balancer. One that is being deleted may
 * have been planned for the last time, and another controller may have taken one over.
 */
const hasCreator = ({ observed, config }: Draft, { name: balancer }: BalancerDraft, { name }: Frontend): boolean =>
  observed.services.some(
    (service) =>
      hasBase(name, defaultLoadBalancerName(service)) &&
      !isBeingDeleted(service) &&
      !isOfAnotherController(service) &&
      readSubject(service, config).subject.internal === isInternalName(balancer),
  );

/**
 * Removes frontends of a Service that has left the load balancer, and those of others that it was the last to use.
 * Returns the ones that stay because others use them.
 */
export function removeFrontends(
  draft: Draft,
  one: BalancerDraft,
  { subject, action }: PlannedService,
  used: readonly string[],
): readonly Frontend[] {
  const { current } = one;
  if (current === undefined) return [];
  const isUsed = ({ id }: Frontend): boolean => used.some((usedId) => sameId(usedId, id));
  // As upstream, a deletion also reports a shared frontend that it did not create.
  const isReported = ({ id }: Frontend): boolean =>
    action === "delete" && usersOf(current, id, isOwnRule(subject)).length > 0;
  const { frontendIPConfigurations: all = [] } = current;
  // The creator of a frontend may have no rules, if it wants none for its ports.
  const isLeft = (frontend: Frontend): boolean => isOrphan(current, frontend) && !hasCreator(draft, one, frontend);
  const left = (used.length === 0 ? namedFor(all, subject.base) : all).filter(
    (frontend) => isPrimary(frontend, subject) || (isUsed(frontend) && (isLeft(frontend) || isReported(frontend))),
  );
  return removeUnused(draft, one, subject, left);
}

/** Removes frontends without other users; an event names the others. Returns the ones that stay. */
export function removeUnused(
  draft: Draft,
  one: BalancerDraft,
  subject: Subject,
  frontends: readonly Frontend[],
): readonly Frontend[] {
  if (frontends.length === 0) return [];
  const kept: Frontend[] = [];
  const removed = new Set<string>();
  for (const frontend of frontends) {
    const users = one.current === undefined ? [] : usersOf(one.current, frontend.id, isOwnRule(subject));
    if (users.length === 0) {
      removed.add(frontend.name ?? "");
      deleteLinks(draft, subject, frontend);
    } else {
      kept.push(frontend);
      const message = `frontend IP configuration ${frontend.name} of load balancer ${one.name} is kept: it is used by ${users.slice(0, 5).join(", ")}`;
      addEvent(draft, subject.key, { type: "Warning", reason: "DeletingFrontendIPConfiguration", message });
    }
  }
  edit(one, subject.key, (balancer) => withoutFrontends(balancer, ({ name }) => removed.has(name ?? "")));
  return kept;
}
