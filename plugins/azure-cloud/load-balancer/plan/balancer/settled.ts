import type { Family } from "../../model/model.ts";
import { oncePer } from "../../model/once-per.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import type { Subject } from "../../service/subject.ts";
import type { Draft, ResourceDraft, UsedFrontend } from "../draft/draft.ts";
import { type Balancer, namedFor } from "../draft/edits.ts";
import type { FrontendTarget } from "../draft/frontends.ts";
import { addService, type FrontendTargets, removeChangedFrontends } from "./add.ts";
import { removeStaleRules } from "./remove.ts";

interface Settled {
  readonly targets: FrontendTargets;
  readonly used: readonly UsedFrontend[] | undefined;
}

/** By config, version of a load balancer and Service. */
const knownBy = oncePer((_config: PlannerConfig) => oncePer((_balancer: Balancer) => new WeakMap<Subject, Settled>()));

/** A Service as it is placed on a load balancer. */
interface Placed {
  readonly subject: Subject;
  readonly targets: FrontendTargets;
  readonly poolNames: ReadonlyMap<Family, string>;
}

/**
 * The frontends of a Service on its load balancer as it was observed; undefined if the Service needs an edit of it, or is
 * refused. It follows from the arguments alone, so that it is computed once for each version of a load balancer.
 */
export function settledUse(
  draft: Draft,
  one: ResourceDraft<Balancer>,
  placed: Placed,
): readonly UsedFrontend[] | undefined {
  const { subject, targets } = placed;
  const { observed } = one;
  // A new Service would be planned twice.
  if (observed === undefined || namedFor(observed.loadBalancingRules, subject.base).length === 0) return undefined;
  const known = knownBy(draft.config)(observed);
  const before = known.get(subject);
  if (before !== undefined && areEqual(before.targets, targets)) return before.used;
  const used = tryUse(draft, { ...one, current: observed, services: new Set() }, placed);
  known.set(subject, { targets, used });
  return used;
}

/** Plans the Service on a draft of its own. */
function tryUse(
  draft: Draft,
  one: ResourceDraft<Balancer>,
  { subject, targets, poolNames }: Placed,
): readonly UsedFrontend[] | undefined {
  const trial: Draft = { ...draft, linkDeletions: new Map(), events: new Map(), problems: new Map() };
  removeStaleRules(trial, one, subject, targets);
  const replaced = removeChangedFrontends(trial, one, subject, targets);
  const used = addService(trial, one, subject, { targets, replaced, poolNames });
  return one.current === one.observed && trial.problems.size === 0 ? used : undefined;
}

function areEqual(left: FrontendTargets, right: FrontendTargets): boolean {
  for (const [family, target] of left) if (!isEqual(target, right.get(family))) return false;
  return left.size === right.size;
}

const isEqual = (left: FrontendTarget, right: FrontendTarget | undefined): boolean =>
  left.kind === "public"
    ? right?.kind === "public" && left.publicIPId === right.publicIPId
    : right?.kind === "private" && left.subnet === right.subnet;
