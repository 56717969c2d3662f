import type { Subnet } from "@azure/arm-network";

import { sameName } from "../../../arm/resource-id.ts";
import { loadBalancerId } from "../../model/ids.ts";
import type { Family } from "../../model/model.ts";
import { internalSuffix, localPoolName, poolName } from "../../model/names.ts";
import { oncePer } from "../../model/once-per.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { type Subject, wantedAddresses } from "../../service/subject.ts";
import { type Draft, type PlannedService, reject, type ResourceDraft, type UsedFrontend } from "../draft/draft.ts";
import { type Balancer, frontendsWith, namedFor } from "../draft/edits.ts";
import { type FrontendTarget, isOfOtherFamily, isPrimary, subnetProblem } from "../draft/frontends.ts";
import { statusAddresses } from "../draft/ingress.ts";
import type { DesiredPublicIP } from "../public-ip/desired.ts";
import type { PublicIPTargets } from "../public-ip/plan.ts";
import type { FrontendTargets } from "./add.ts";
import { chooseBasic } from "./basic.ts";
import { type Choice, chooseMultiple, type Planned, remember } from "./multiple.ts";
import { settledUse } from "./settled.ts";

type BalancerDraft = ResourceDraft<Balancer>;

export interface Placement extends PlannedService {
  /** `undefined` for Services that are deleted or rejected. */
  readonly target: BalancerDraft | undefined;
  readonly frontends: FrontendTargets;
  readonly poolNames: ReadonlyMap<Family, string>;
  /** Its frontends on the target as observed, if that needs no edit for it; those for others leave what it uses. */
  readonly settled: readonly UsedFrontend[] | undefined;
}

/** Chooses the load balancer of a Service, and its frontends there. */
export function place(draft: Draft, planned: PlannedService, publicIPs: PublicIPTargets, earlier: Planned): Placement {
  const { subject, action } = planned;
  if (action === "delete") return { ...planned, ...nowhere };
  const choice = chooseBalancer(draft, subject, publicIPs, earlier);
  if ("problem" in choice) {
    reject(draft, subject.key, choice.code, choice.problem);
    return { ...planned, ...nowhere };
  }
  const target = balancerNamed(draft, choice.name);
  draft.targets.set(subject.key, target);
  if (draft.retired.has(target)) {
    draft.pending.add(subject.key);
    return { ...planned, ...nowhere, target };
  }
  const given = { target: target.observed, publicIPs: publicIPs.get(subject.key), subnet: subnetOf(draft, subject) };
  const places = placesBy(draft.config)(draft.observed.loadBalancers);
  const before = places.get(subject);
  if (before !== undefined && isSame(before.given, given)) return { ...planned, target, ...before };
  const frontends = frontendTargets(draft, subject, given);
  for (const [family, frontend] of frontends)
    if (isElsewhere(draft, subject, target, frontend) || isOfOtherFamily(target.observed, subject, family)) {
      draft.pending.add(subject.key);
      frontends.delete(family);
    }
  const poolNames = poolNamesBy(draft.config)(subject);
  const settled = settledUse(draft, target, { subject, targets: frontends, poolNames });
  const isPlaced = settled !== undefined && !draft.pending.has(subject.key) && !draft.problems.has(subject.key);
  if (isPlaced) places.set(subject, { given, frontends, poolNames, settled });
  return { ...planned, target, frontends, poolNames, settled };
}

const nowhere = { target: undefined, frontends: new Map(), poolNames: new Map(), settled: undefined };

/** Inputs of the place of a Service, beside the load balancers. */
interface Given {
  readonly target: Balancer | undefined;
  readonly publicIPs: ReadonlyMap<Family, DesiredPublicIP> | undefined;
  readonly subnet: Readonly<Subnet> | undefined;
}

const isSame = (one: Given, other: Given): boolean =>
  one.target === other.target && one.publicIPs === other.publicIPs && one.subnet === other.subnet;

/** The places of Services that need no edit, by config and load balancers: most plans find all of them as they were. */
const placesBy = oncePer((_config: PlannerConfig) =>
  oncePer(
    (_loadBalancers: readonly Balancer[]) =>
      new WeakMap<Subject, Pick<Placement, "frontends" | "poolNames" | "settled"> & { readonly given: Given }>(),
  ),
);

const poolNamesBy = oncePer((config: PlannerConfig) =>
  oncePer(
    (subject: Subject): ReadonlyMap<Family, string> =>
      new Map(
        subject.families.map((family) => [
          family,
          isLocal(subject, config) ? localPoolName(subject.key, family) : poolName(config.clusterName, family),
        ]),
      ),
  ),
);

/** True for a Service with pools of its own. */
export const isLocal = ({ local }: Subject, { loadBalancers }: PlannerConfig): boolean =>
  local && loadBalancers.length > 0;

/** An address must leave the frontend of another load balancer before it can have one here. */
function isElsewhere({ observed }: Draft, subject: Subject, target: BalancerDraft, frontend: FrontendTarget): boolean {
  const isFormer = (address: string): boolean =>
    wantedAddresses(subject).includes(address) || statusAddresses(subject.service).includes(address);
  const has = (one: Balancer): boolean =>
    frontend.kind === "public"
      ? frontendsWith(one, frontend.publicIPId).length > 0
      : namedFor(one.frontendIPConfigurations, subject.base).some(
          (own) => isPrimary(own, subject) && isFormer(own.privateIPAddress ?? ""),
        );
  return observed.loadBalancers.some((one) => !sameName(one.name ?? "", target.name) && has(one));
}

function balancerNamed(draft: Draft, name: string): BalancerDraft {
  const known = draft.balancers.get(name.toLowerCase());
  if (known !== undefined) return known;
  const created: BalancerDraft = {
    id: loadBalancerId(draft.config, name),
    resourceGroup: draft.config.loadBalancerResourceGroup,
    name,
    observed: undefined,
    current: newBalancer(name, draft.config),
    services: new Set(),
  };
  draft.balancers.set(name.toLowerCase(), created);
  return created;
}

const newBalancer = (name: string, { location, extendedLocation, sku }: PlannerConfig): Balancer => ({
  name,
  location,
  sku: { name: sku === "standard" ? "Standard" : "Basic" },
  ...(extendedLocation && { extendedLocation }),
});

const subnetName = ({ subnet }: Subject, { config }: Draft): string => subnet ?? config.subnet;

const subnetOf = (draft: Draft, subject: Subject): Given["subnet"] =>
  subject.internal ? draft.observed.subnets.get(subnetName(subject, draft).toLowerCase()) : undefined;

function frontendTargets(draft: Draft, subject: Subject, { publicIPs, subnet }: Given): Map<Family, FrontendTarget> {
  const targets = new Map<Family, FrontendTarget>();
  if (!subject.internal) {
    for (const [family, { id }] of publicIPs ?? []) targets.set(family, { kind: "public", publicIPId: id });
    return targets;
  }
  if (subnet === undefined) {
    const { virtualNetwork } = draft.config;
    const message = `ensure(${subject.key}): failed to get subnet: ${virtualNetwork.name}/${subnetName(subject, draft)}`;
    reject(draft, subject.key, "SubnetNotFound", message);
    return targets;
  }
  for (const family of subject.families.toSorted()) {
    const problem = subnetProblem(subject, family, subnet);
    if (problem !== undefined) reject(draft, subject.key, "AddressOutsideSubnet", problem);
    targets.set(family, { kind: "private", subnet });
  }
  return targets;
}

/** Name of the load balancer of a Service. */
function chooseBalancer(draft: Draft, subject: Subject, publicIPs: PublicIPTargets, planned: Planned): Choice {
  const { loadBalancerName, clusterName, loadBalancers, sku } = draft.config;
  if (sku !== "basic" && loadBalancers.length === 0)
    return { name: (loadBalancerName || clusterName) + (subject.internal ? internalSuffix : "") };
  const choice =
    sku === "basic" ? chooseBasic(draft, subject, planned) : chooseMultiple(draft, subject, publicIPs, planned);
  if ("name" in choice) remember(planned, subject, publicIPs, choice.name);
  return choice;
}
