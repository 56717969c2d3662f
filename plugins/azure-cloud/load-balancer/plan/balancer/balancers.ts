import { childId, loadBalancerId, sameId } from "../../model/ids.ts";
import type { ServiceKey } from "../../model/model.ts";
import { isInternalName, localPoolName, sharedProbeName } from "../../model/names.ts";
import { oncePer } from "../../model/once-per.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { reconcileTags } from "../../model/tags.ts";
import { fullKey } from "../../service/annotation-rows.ts";
import { annotations } from "../../service/annotations.ts";
import type { Subject } from "../../service/subject.ts";
import { type Draft, edit, type PlannedService, reject, type ResourceDraft, type UsedPool } from "../draft/draft.ts";
import { type Balancer, hasPartsOf, ruledPools, withoutPools, withoutProbes } from "../draft/edits.ts";
import type { Frontend } from "../draft/frontends.ts";
import type { PublicIPTargets } from "../public-ip/plan.ts";
import { addOwnersFrontends, addService, removeChangedFrontends, type Replaced } from "./add.ts";
import { withoutExchanges } from "./exchanges.ts";
import type { Planned } from "./multiple.ts";
import { isLocal, place, type Placement } from "./place.ts";
import { removeFrontends, removeLeft, removeRules, removeStaleRules } from "./remove.ts";

type BalancerDraft = ResourceDraft<Balancer>;

/** Drafts of every observed load balancer. */
export function draftBalancers(draft: Draft): void {
  for (const one of draft.observed.loadBalancers) {
    const name = one.name ?? "";
    draft.balancers.set(name.toLowerCase(), {
      id: one.id ?? loadBalancerId(draft.config, name),
      resourceGroup: draft.config.loadBalancerResourceGroup,
      name,
      observed: one,
      current: one,
      services: new Set(),
    });
  }
}

/**
 * Plans rules, probes, pools and frontends of all Services: first everything that leaves, then everything that comes,
 * so that a port or frontend which one Service gives up is free for another.
 */
export function planBalancers(draft: Draft, publicIPs: PublicIPTargets): void {
  const earlier: Planned = { rules: new Map(), addresses: new Map() };
  const placed = draft.services.map((planned) => place(draft, planned, publicIPs, earlier));
  const placements = withoutExchanges(draft, placed);
  const left = placements.map((placement) => removeEverywhere(draft, placement));
  for (const [index, placement] of placements.entries())
    for (const [one, used] of left[index] ?? [])
      if (one === placement.target) removeLeft(draft, one, placement.subject, used);
      else rejectMigration(draft, one, placement, removeFrontends(draft, one, placement, used));
  const replaced = placements.map(({ subject, target, frontends, settled }) =>
    target === undefined || settled !== undefined
      ? new Map()
      : removeChangedFrontends(draft, target, subject, frontends),
  );
  addOwnersFrontends(draft, placements);
  for (const [index, placement] of placements.entries()) addPlaced(draft, placement, replaced[index] ?? new Map());
  removeLocalPools(draft);
  for (const one of draft.balancers.values()) dropUnusedSharedProbe(one);
}

/** A frontend that others use cannot go to another load balancer of its kind; a change of kind leaves it to them. */
function rejectMigration(
  draft: Draft,
  one: BalancerDraft,
  { subject, target }: Placement,
  kept: readonly Frontend[],
): void {
  const [first] = kept;
  if (first === undefined || target === undefined || isInternalName(one.name) !== subject.internal) return;
  const message = `cannot migrate from load balancer ${one.name} to ${target.name}: other Services use frontend ${first.name}; remove annotation ${fullKey(annotations.configurations)} or move them first`;
  reject(draft, subject.key, "MigrationBlocked", message);
}

/**
 * Removes pools of local Services that have left a load balancer, or are not local any more. `a-b/c` and `a/b-c` have pools
 * of one name: rules of the other one keep it.
 */
function removeLocalPools(draft: Draft): void {
  if (draft.config.loadBalancers.length === 0) return;
  const owners = new Map<string, ServiceKey>();
  for (const { subject } of draft.services)
    for (const family of ["IPv4", "IPv6"] as const) owners.getOrInsert(localPoolName(subject.key, family), subject.key);
  for (const one of draft.balancers.values())
    for (const pool of one.current?.backendAddressPools ?? []) {
      const owner = owners.get(pool.name?.toLowerCase() ?? "");
      const id = childId(one.id, "backendAddressPools", pool.name ?? "").toLowerCase();
      if (owner === undefined || draft.pools.has(id)) continue;
      if (one.current !== undefined && ruledPools(one.current).has(id)) continue;
      edit(one, owner, (balancer) => withoutPools(balancer, (other) => other === pool));
    }
}

/**
 * Removes rules from every load balancer, of the target the stale ones. Returns the frontends that those rules used, by
 * load balancer that may have parts of the Service.
 */
function removeEverywhere(
  draft: Draft,
  placement: Placement,
): readonly (readonly [BalancerDraft, readonly string[]])[] {
  const { subject, target, frontends, settled } = placement;
  const left: (readonly [BalancerDraft, readonly string[]])[] = [];
  for (const one of draft.balancers.values())
    if (one === target) {
      if (settled === undefined) left.push([one, removeStaleRules(draft, one, subject, frontends)]);
    } else if (hasPartsOf(one.observed, subject.base)) left.push([one, removeRules(one, placement)]);
  return left;
}

function addPlaced(draft: Draft, placement: Placement, replaced: Replaced): void {
  const { subject, target, frontends, poolNames, settled } = placement;
  if (target === undefined) return;
  const local = isLocal(subject, draft.config);
  for (const [family, name] of poolNames)
    if (frontends.has(family)) usePool(draft, { balancer: target, name, family, local }, placement);
  const used = settled ?? addService(draft, target, subject, { targets: frontends, replaced, poolNames });
  draft.frontends.set(subject.key, used);
  if (draft.config.tags.size > 0 && frontends.size > 0)
    edit(target, subject.key, (balancer) => withTags(balancer, draft.config));
}

/** Lower-case ids by name: each Service asks for that of the same pool. */
const poolIdsOf = oncePer((_balancer: BalancerDraft) => new Map<string, string>());

/** Notes that a Service with some nodes uses a pool. */
export function usePool(
  draft: Draft,
  { balancer, name, family, local }: Omit<UsedPool, "nodeLists" | "services">,
  { subject, nodes }: Pick<PlannedService, "nodes"> & { readonly subject: Pick<Subject, "key"> },
): void {
  const id = poolIdsOf(balancer).getOrInsertComputed(name, () =>
    childId(balancer.id, "backendAddressPools", name).toLowerCase(),
  );
  const known = draft.pools.get(id) ?? { balancer, name, family, local, nodeLists: new Set(), services: new Set() };
  draft.pools.set(id, known);
  known.services.add(subject.key);
  known.nodeLists.add(nodes);
}

function withTags(balancer: Balancer, { tags, systemTags }: PlannerConfig): Balancer {
  const next = reconcileTags(balancer.tags, tags, systemTags);
  return next === balancer.tags || next === undefined ? balancer : { ...balancer, tags: { ...next } };
}

/** The shared probe goes with the last rule that uses it. */
function dropUnusedSharedProbe(one: BalancerDraft): void {
  const probe = one.current?.probes?.find(({ name }) => name === sharedProbeName);
  if (probe === undefined || one.services.size === 0) return;
  const id = `${one.id}/probes/${sharedProbeName}`;
  if (one.current?.loadBalancingRules?.some((rule) => sameId(rule.probe?.id, id))) return;
  const [first] = one.services;
  if (first !== undefined) edit(one, first, (balancer) => withoutProbes(balancer, [probe]));
}

/** True if a Service waits for its frontend on a load balancer that has none for the moment. */
export const isAwaited = ({ targets, pending, retired }: Draft, one: BalancerDraft): boolean =>
  !retired.has(one) && pending.values().some((key) => targets.get(key) === one);
