import type { InboundNatPool, LoadBalancingRule } from "@azure/arm-network";
import { defaultLoadBalancerName, keyOf } from "cloud-controller-host/sdk";

import { lastSegment, sameName } from "../../../arm/resource-id.ts";
import { childId, sameId } from "../../model/ids.ts";
import type { Family } from "../../model/model.ts";
import { hasBaseInAnyCase, isPublicIPNameOf } from "../../model/names.ts";
import { annotations } from "../../service/annotations.ts";
import type { Subject } from "../../service/subject.ts";
import { type Draft, edit, reject, type ResourceDraft, type UsedFrontend, zonesFor } from "../draft/draft.ts";
import {
  type Balancer,
  namedFor,
  rulesOn,
  withFrontend,
  withoutProbes,
  withPool,
  withProbes,
  withRules,
} from "../draft/edits.ts";
import {
  type Frontend,
  frontendsOf,
  type FrontendTarget,
  isChanged,
  isPrimary,
  newFrontend,
} from "../draft/frontends.ts";
import { equalProbes } from "./probes.ts";
import { isOwnRule, removeUnused } from "./remove.ts";
import { desiredRules, equalRules } from "./rules.ts";

type BalancerDraft = ResourceDraft<Balancer>;

/** The desired frontend of each family; a family that waits for its public IP is absent. */
export type FrontendTargets = ReadonlyMap<Family, FrontendTarget>;

/** Frontends by family that were removed because another one takes their place. */
export type Replaced = ReadonlyMap<Family, Frontend>;

/** Removes the frontends that must be replaced. A frontend that other Services use blocks the change. */
export function removeChangedFrontends(
  draft: Draft,
  one: BalancerDraft,
  subject: Subject,
  targets: FrontendTargets,
): Replaced {
  const replaced = new Map<Family, Frontend>();
  const { current } = one;
  if (current === undefined) return replaced;
  for (const family of ["IPv4", "IPv6"] as const) {
    const target = targets.get(family);
    const gone =
      target === undefined
        ? unwantedOf(current, subject, family)
        : frontendsOf(current, subject, family, target).filter((frontend) =>
            isChanged(frontend, subject, family, target),
          );
    const kept = removeUnused(draft, one, subject, gone);
    for (const { name } of kept)
      reject(
        draft,
        subject.key,
        "FrontendInUse",
        `frontend IP configuration ${name} cannot be changed while other Services use it`,
      );
    const [first] = gone;
    if (first !== undefined) replaced.set(family, first);
  }
  return replaced;
}

/** Own frontends of a family that the Service does not have, or whose public IP is created again. */
function unwantedOf(balancer: Balancer, subject: Subject, family: Family): readonly Frontend[] {
  if (!subject.families.includes(family)) return [];
  const none: FrontendTarget = { kind: "public", publicIPId: "" };
  return frontendsOf(balancer, subject, family, none);
}

interface Placed {
  readonly subject: Subject;
  readonly target: BalancerDraft | undefined;
  readonly frontends: FrontendTargets;
  /** The frontends of a Service that needs no edit. */
  readonly settled: readonly UsedFrontend[] | undefined;
}

/**
 * Adds the frontend of a Service whose own public IP others choose in the same plan before they are added, whatever their
 * age: they share it and can leave it again, while a frontend of their own could not change as long as the owner uses it.
 */
export function addOwnersFrontends(draft: Draft, placements: readonly Placed[]): void {
  if (placements.every(({ target, settled }) => target === undefined || settled !== undefined)) return;
  const uses = placements.flatMap(({ subject, target: one, frontends }) =>
    [...frontends].flatMap(([family, target]) =>
      one === undefined || target.kind === "private" ? [] : [{ subject, one, family, target }],
    ),
  );
  for (const [id, users] of Map.groupBy(uses, ({ target }) => target.publicIPId)) {
    if (users.length === 1) continue;
    const isOwner = ({ subject }: (typeof users)[number]): boolean =>
      isPublicIPNameOf(draft.config.clusterName, subject.base, lastSegment(id));
    const owner = users.find(isOwner);
    if (owner !== undefined) ensureFrontend(draft, owner.one, owner);
  }
}

interface Additions {
  readonly targets: FrontendTargets;
  readonly replaced: Replaced;
  readonly poolNames: ReadonlyMap<Family, string>;
}

/** Adds what the Service lacks: pools, frontends, probes, rules. Returns the frontends that it uses. */
export function addService(
  draft: Draft,
  one: BalancerDraft,
  subject: Subject,
  { targets, replaced, poolNames }: Additions,
): readonly UsedFrontend[] {
  const used: UsedFrontend[] = [];
  const probes = new Set<string>();
  for (const [family, target] of targets) {
    const pool = poolNames.get(family) ?? "";
    edit(one, subject.key, (balancer) => withPoolNamed(balancer, pool));
    const frontend = ensureFrontend(draft, one, { subject, family, target, replaced: replaced.get(family) });
    if (isPrimary(frontend, subject) && !subject.internal && draft.config.sku === "standard")
      edit(one, subject.key, (balancer) =>
        chained(balancer, frontend, subject.settings.get(annotations.gatewayFrontend)),
      );
    used.push({ family, balancer: one.name, frontend });
    const ids = {
      loadBalancer: one.id,
      frontend: frontend.id ?? "",
      pool: childId(one.id, "backendAddressPools", pool),
    };
    const desired = desiredRules(subject, family, ids, draft.config);
    rejectConflicts(draft, one, subject, ids.frontend);
    // Its rules would be conflicts of the Services that have these ports.
    if (draft.problems.has(subject.key)) continue;
    for (const { name } of desired.probes) probes.add(name.toLowerCase());
    edit(one, subject.key, (balancer) =>
      withRules(
        withProbes(balancer, desired.probes, (present, wanted) => equalProbes(draft.config, present, wanted)),
        desired.rules,
        equalRules,
      ),
    );
  }
  edit(one, subject.key, (balancer) =>
    withoutProbes(
      balancer,
      namedFor(balancer.probes, subject.base).filter(({ name = "" }) => !probes.has(name.toLowerCase())),
    ),
  );
  return used;
}

const withPoolNamed = (balancer: Balancer, name: string): Balancer =>
  balancer.backendAddressPools?.some((pool) => sameName(pool.name ?? "", name))
    ? balancer
    : withPool(balancer, { name });

/** The frontend with the Gateway Load Balancer that its Service asks for; undefined: it asks for nothing. */
function chained(balancer: Balancer, { name, gatewayLoadBalancer }: Frontend, gateway: string | undefined): Balancer {
  if (gateway === undefined || sameId(gatewayLoadBalancer?.id ?? "", gateway)) return balancer;
  const present = balancer.frontendIPConfigurations?.find((one) => one.name === name);
  if (present === undefined) return balancer;
  const { gatewayLoadBalancer: _gateway, ...rest } = present;
  const next = gateway === "" ? rest : { ...rest, gatewayLoadBalancer: { id: gateway } };
  return {
    ...balancer,
    frontendIPConfigurations: (balancer.frontendIPConfigurations ?? []).map((one) => (one === present ? next : one)),
  };
}

interface Wanted {
  readonly subject: Subject;
  readonly family: Family;
  readonly target: FrontendTarget;
  readonly replaced?: Frontend | undefined;
}

function ensureFrontend(draft: Draft, one: BalancerDraft, { subject, family, target, replaced }: Wanted): Frontend {
  const balancer = one.current ?? {};
  const [present] = frontendsOf(balancer, subject, family, target);
  if (present !== undefined) return present;
  const isNew = target.kind === "private" && replaced === undefined;
  const about = { balancer, balancerId: one.id, zones: isNew ? zonesFor(draft, subject.key) : [], replaced };
  const frontend = newFrontend(subject, family, target, about);
  edit(one, subject.key, (current) => withFrontend(current, frontend));
  return frontend;
}

/** Two rules cannot have one port of one frontend. Source: upstream `checkLoadBalancerResourcesConflicts`. */
function rejectConflicts(draft: Draft, { current }: BalancerDraft, subject: Subject, frontend: string): void {
  const isOwn = isOwnRule(subject);
  const byPort = Map.groupBy(rulesOn(current ?? {}, frontend), ({ frontendPort }) => frontendPort);
  for (const { port, protocol = "TCP" } of subject.ports) {
    const isTaken = (user: User): boolean =>
      sameName(user.protocol ?? "", protocol) && sameId(user.frontendIPConfiguration?.id, frontend);
    const other =
      byPort.get(port)?.find((rule) => isTaken(rule) && !isOwn(rule)) ??
      current?.inboundNatRules?.find((rule) => rule.frontendPort === port && isTaken(rule)) ??
      current?.inboundNatPools?.find((pool) => isInRange(pool, port) && isTaken(pool));
    if (other === undefined) continue;
    const message = `port ${port}/${protocol} of frontend ${frontend} is taken by ${ownerOf(draft, other)}`;
    reject(draft, subject.key, "PortConflict", message);
  }
}

/** The Service that a rule is named after, with the rule. */
function ownerOf({ observed }: Draft, { name = "" }: { readonly name?: string }): string {
  const owner = observed.services.find((service) => hasBaseInAnyCase(name, defaultLoadBalancerName(service)));
  return owner === undefined ? name : `Service ${keyOf(owner)} (rule ${name})`;
}

type User = Pick<LoadBalancingRule, "protocol" | "frontendIPConfiguration">;

const isInRange = (
  { frontendPortRangeStart: first, frontendPortRangeEnd: last }: InboundNatPool,
  port: number,
): boolean => first !== undefined && last !== undefined && first <= port && port <= last;
