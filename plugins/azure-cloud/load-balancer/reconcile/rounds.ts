import { keyOf } from "cloud-controller-host/sdk";

import { sameName } from "../../arm/resource-id.ts";
import { childId } from "../model/ids.ts";
import type { Observed, ServiceIntent, ServiceKey } from "../model/model.ts";
import { type Plan, stages, type Write } from "../model/plan-model.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { plan } from "../plan/plan.ts";
import { choosesAddress, readSubject } from "../service/subject.ts";

type StageName = (typeof stages)[number];

interface PlannedWrite {
  readonly write: Write;
  readonly stage: StageName;
}

const orderOf = (stage: StageName): number => stages.indexOf(stage);

/**
 * The security group needs the addresses and nothing else; all other writes need those of every stage before theirs. The
 * load balancer of a Service whose address it is `closing` needs the security group as well.
 */
const needs = (stage: StageName, earlier: StageName, isClosing: boolean): boolean =>
  (isClosing && stage === "load-balancers" && earlier === "security-group") ||
  orderOf(earlier) < orderOf(stage === "security-group" ? "load-balancers" : stage);

export interface Round {
  readonly planned: Plan;
  /** The Services that it is about: those that only wait for a resource, or would take a port of these, are left out. */
  readonly active: readonly ServiceIntent[];
  readonly writes: readonly Write[];
  /** The writes that can start now. */
  readonly ready: readonly Write[];
  /** Services that need something before they take part in a write that could start without them. */
  readonly early: ReadonlySet<ServiceKey>;
  /** The others. What is refused stays out as well: the port that it is refused for may be that of an early Service. */
  readonly rest: readonly ServiceIntent[];
}

export interface RoundOptions {
  readonly config: PlannerConfig;
  readonly isFree: (write: Write) => boolean;
  /** True for a write that waits for more Services to share it. */
  readonly isHeldBack: (write: Write) => boolean;
  readonly isDone: (write: Write, service: ServiceKey) => boolean;
  /** Services that are not planned because they wait: what is theirs on a shared address stays theirs. */
  readonly others?: readonly ServiceIntent[];
}

/**
 * Plans Services together, without those whose first writes all wait for a resource: a write that others share with
 * them would have to wait as well. A write is ready when it is the first one of each of its Services.
 */
export function planRound(services: readonly ServiceIntent[], observed: Observed, options: RoundOptions): Round {
  const { config, isFree, isHeldBack, isDone, others = [] } = options;
  const takersIn = portTakers([...services, ...others], observed, config);
  for (let active = services; ;) {
    const planned = plan(active, observed, config);
    const writes = planned.stages.flatMap(({ name, writes: ofStage }) =>
      ofStage
        .filter((write) => write.services.some((key) => !isDone(write, key)))
        .map((write) => ({ write, stage: name })),
    );
    const attempt = { planned, active, writes, first: firstWrites(writes) };
    const free = new Set(writes.flatMap(({ write }) => (isFree(write) ? [write] : [])));
    const waiting = [...attempt.first].flatMap(([key, ofService]) =>
      decisive(ofService).some((write) => free.has(write)) ? [] : [key],
    );
    const leftOut = new Set(waiting.length > 0 ? waiting : takersIn(attempt));
    if (leftOut.size === 0) return roundOf(attempt, (write) => free.has(write) && !isHeldBack(write));
    active = active.filter(({ service }) => !leftOut.has(keyOf(service)));
  }
}

/** A plan that becomes the round unless some of its Services have to be left out. */
interface Attempt extends Pick<Round, "planned" | "active"> {
  readonly writes: readonly PlannedWrite[];
  readonly first: ReadonlyMap<ServiceKey, readonly Write[]>;
}

function roundOf({ planned, active, writes, first }: Attempt, mayStart: (write: Write) => boolean): Round {
  const all = writes.map(({ write }) => write);
  const isFirst = (write: Write, key: ServiceKey): boolean => first.get(key)?.includes(write) ?? false;
  const startable = all.filter(mayStart);
  const ready = startable.filter((write) => write.services.every((key) => isFirst(write, key)));
  const shared = startable.filter((write) => write.services.some((key) => isFirst(write, key)));
  const early = new Set(shared.flatMap((write) => write.services.filter((key) => !isFirst(write, key))));
  const isOut = (key: ServiceKey): boolean => early.has(key) || planned.results.get(key)?.problem !== undefined;
  const rest = active.filter(({ service }) => !isOut(keyOf(service)));
  return { planned, active, writes: all, ready, early, rest };
}

/**
 * Finds Services that would take a port on a shared address while the one that gets it waits: they are refused where all
 * are planned together, and only there.
 */
function portTakers(all: readonly ServiceIntent[], observed: Observed, config: PlannerConfig) {
  let together: Plan | undefined;
  const isRefused = ({ results }: Plan, key: ServiceKey) => results.get(key)?.problem?.code === "PortConflict";
  return ({ planned, active, writes }: Attempt): readonly ServiceKey[] => {
    const balancers = writes.flatMap(({ write }) => (write.kind === "put-load-balancer" ? [write] : []));
    if (active.length === all.length || balancers.length === 0) return [];
    const uninvolved = new Set(active.map(({ service }) => keyOf(service)));
    for (const { services } of balancers) for (const key of services) uninvolved.delete(key);
    const involved = all.filter(({ service }) => !uninvolved.has(keyOf(service)));
    // A second plan for the few Services that share an address.
    if (!involved.some(({ service }) => choosesAddress(readSubject(service, config).subject))) return [];
    const joint = (together ??= plan(all, observed, config));
    return [...planned.results.keys()].filter((key) => isRefused(joint, key) && !isRefused(planned, key));
  };
}

/** The writes that can start in the round, and those of a plan without its early Services that it has as well. */
export function withShared({ ready, writes }: Round, { ready: others }: Round): readonly Write[] {
  const includes = (list: readonly Write[], { kind, id }: Write): boolean =>
    list.some((one) => one.kind === kind && one.id === id);
  return [...ready, ...others.filter((write) => includes(writes, write) && !includes(ready, write))];
}

/**
 * The first writes of a Service that decide whether it waits. One that waits for its load balancer waits with its security
 * rules: both are then written once for many.
 */
function decisive(first: readonly Write[]): readonly Write[] {
  const others = first.filter(({ kind }) => kind !== "put-security-group");
  return others.length > 0 ? others : first;
}

/** By Service, the writes that need no other one of it. */
function firstWrites(writes: readonly PlannedWrite[]): ReadonlyMap<ServiceKey, readonly Write[]> {
  const closing = new Set(
    writes.flatMap(({ write }) => (write.kind === "put-security-group" ? (write.closing ?? []) : [])),
  );
  const byService = new Map<ServiceKey, PlannedWrite[]>();
  for (const one of writes)
    for (const key of one.write.services) byService.set(key, [...(byService.get(key) ?? []), one]);
  return new Map(
    [...byService].map(([key, ofService]) => [
      key,
      ofService
        .filter(({ stage }) => !ofService.some((other) => needs(stage, other.stage, closing.has(key))))
        .map(({ write }) => write),
    ]),
  );
}

/** Age of a write up to which a load balancer is not taken away from the Services of the write. */
export const awaitedMs = 10_000;

/** True if the write takes away a load balancer, which is created again when a Service wants it. */
export const isAbandoning = ({ kind }: Write): boolean => kind === "release-pools" || kind === "delete-load-balancer";

/** The writes without those that take away a load balancer which Services with a write in flight are about to use. */
export function withoutAwaited(
  ready: readonly Write[],
  awaiting: readonly ServiceIntent[],
  { active, observed, config }: Pick<Round, "active"> & { readonly observed: Observed; readonly config: PlannerConfig },
): readonly Write[] {
  const given = new Set(active.map(({ service }) => keyOf(service)));
  const others = awaiting.filter(({ service }) => !given.has(keyOf(service)));
  if (others.length === 0) return ready;
  const { stages: all } = plan([...active, ...others], observed, config);
  const abandoned = new Set(all.flatMap(({ writes }) => writes.filter(isAbandoning).map(({ id }) => id)));
  return ready.filter((write) => !isAbandoning(write) || abandoned.has(write.id));
}

/** Lower-case ids of the pools that the write creates. */
export function createdPools(write: Write, { loadBalancers }: Observed): readonly string[] {
  if (write.kind !== "put-load-balancer") return [];
  const before = loadBalancers.find(({ id = "" }) => sameName(id, write.id))?.backendAddressPools ?? [];
  const names = new Set(before.map(({ name = "" }) => name.toLowerCase()));
  return (write.body.backendAddressPools ?? []).flatMap(({ name = "" }) =>
    names.has(name.toLowerCase()) ? [] : [childId(write.id, "backendAddressPools", name).toLowerCase()],
  );
}
