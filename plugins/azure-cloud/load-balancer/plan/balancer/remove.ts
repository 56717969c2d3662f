import type { LoadBalancingRule } from "@azure/arm-network";

import { sameId } from "../../model/ids.ts";
import type { Family } from "../../model/model.ts";
import { hasBaseInAnyCase } from "../../model/names.ts";
import type { Subject } from "../../service/subject.ts";
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
import { desiredRules } from "./rules.ts";

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
 * do not keep the frontends. Rules that only differ are replaced later.
 */
export function removeStaleRules(
  draft: Draft,
  one: BalancerDraft,
  subject: Subject,
  targets: ReadonlyMap<Family, FrontendTarget>,
): void {
  const expected = new Set(
    [...targets.keys()].flatMap((family) => {
      const ids = { loadBalancer: one.id, frontend: "", pool: "" };
      const { rules } = desiredRules(subject, family, ids, draft.config);
      return rules.map(({ name }) => (name ?? "").toLowerCase());
    }),
  );
  const kept = new Set(
    [...targets].flatMap(([family, target]) =>
      frontendsOf(one.current ?? {}, subject, family, target)
        .filter((frontend) => !isChanged(frontend, subject, family, target))
        .map(({ id = "" }) => id.toLowerCase()),
    ),
  );
  const isStale = ({ name = "", frontendIPConfiguration }: Readonly<LoadBalancingRule>): boolean =>
    !expected.has(name.toLowerCase()) || !kept.has((frontendIPConfiguration?.id ?? "").toLowerCase());
  edit(one, subject.key, (balancer) =>
    withoutRules(balancer, namedFor(balancer.loadBalancingRules, subject.base).filter(isStale)),
  );
}

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
  const left = (used.length === 0 ? namedFor(all, subject.base) : all).filter(
    (frontend) =>
      isPrimary(frontend, subject) || (isUsed(frontend) && (isOrphan(current, frontend) || isReported(frontend))),
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
