import { type CloudContext, keyOf, kinds, type Service, type UnrequestedRemovals } from "cloud-controller-host/sdk";

import { confirmGone } from "../../removal-guard/confirm-gone.ts";
import type { Causes, HeldChange, RemovalGuard, ResourceChange } from "../../removal-guard/guard.ts";
import { RemovalHeldError } from "../../removal-guard/rule.ts";
import type { Observed, PlanInput, ServiceIntent, ServiceKey } from "../model/model.ts";
import type { Plan, Write } from "../model/plan-model.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { causesOf } from "./causes.ts";
import { changesOf, contentsOf, itemsAfter } from "./contents.ts";
import type { Drifts } from "./drifts.ts";
import { withHeldNodes } from "./held-nodes.ts";
import { lostAddresses, lostLinks, placedKinds } from "./lost-placements.ts";
import { type Owners, ownersOf } from "./owners.ts";

/** Guards between plans and their writes, shared by load balancers and routes. */
export interface Removals {
  readonly guard: RemovalGuard;
  readonly drifts: Drifts;
}

/** A round that removes nothing without a cause, and what it was planned from. */
export interface GuardedRound<Round> extends PlanInput {
  readonly round: Round;
  /** Services that are left out, with the reason. */
  readonly held: ReadonlyMap<ServiceKey, RemovalHeldError>;
}

/** Number of plans with held nodes put back; after these, the Services concerned are left out. */
const maxReturns = 3;

/** The removal guard for load balancers, security groups and public IPs: it stands between a plan and its writes. */
export class GuardedRounds {
  readonly guard: RemovalGuard;
  readonly #context: Pick<CloudContext, "client" | "events" | "informers" | "shards">;
  readonly #config: PlannerConfig;
  readonly #drifts: Drifts;
  readonly #seen = new WeakSet<object>();
  /** Of the last plan. */
  #owners: Owners | undefined;
  readonly #settled = new Map<ServiceKey, Service>();
  readonly #reported = new Map<ServiceKey, string>();

  constructor(
    context: Pick<CloudContext, "client" | "events" | "informers" | "shards">,
    { guard, drifts }: Removals,
    config: PlannerConfig,
  ) {
    this.guard = guard;
    this.#drifts = drifts;
    this.#context = context;
    this.#config = config;
  }

  started({ id }: Write): void {
    this.#drifts.started(id);
  }

  /** Ends a write. Items that it removed are not lost. */
  ended({ kind, write }: { readonly kind: string; readonly write: Write }): void {
    this.#drifts.ended(write.id);
    const items = kind === "written" && this.#owners ? itemsAfter(write, this.#owners) : undefined;
    if (items !== undefined) this.guard.written(write.id, items);
  }

  /** The load balancer matches the Service: any later removal must have a cause. */
  settled({ action, service }: Pick<ServiceIntent, "action" | "service">): void {
    const key = keyOf(service);
    if (action === "ensure") this.#settled.set(key, service);
    else for (const known of [this.#settled, this.#reported]) known.delete(key);
  }

  /**
   * Plans until nothing is removed that must be held. Nodes whose removal is held are planned as present;
   * Services whose own items are held are left out. Everything else is planned as it is.
   */
  async plan<Round extends { readonly planned: Plan }>(
    input: PlanInput,
    planWith: (intents: readonly ServiceIntent[], observed: Observed) => Round,
    isFree: (write: Write) => boolean = () => true,
  ): Promise<GuardedRound<Round>> {
    let { intents, observed } = input;
    const held = new Map<ServiceKey, RemovalHeldError>();
    for (let returns = 0; ; returns += 1) {
      const round = planWith(intents, observed);
      const changes = await this.review(round.planned, { intents, observed }, isFree);
      if (changes.length === 0) return { round, intents, observed, held };
      for (const change of changes) this.#report(change);
      const keys = new Set(intents.map(({ service }) => keyOf(service)));
      for (const change of changes)
        for (const key of leftOut(change, keys, returns)) held.set(key, new RemovalHeldError(change.message));
      const left = intents.filter(({ service }) => !held.has(keyOf(service)));
      const isStuck = left.length === intents.length && returns >= maxReturns;
      if (isStuck) return { round: planWith([], observed), intents: [], observed, held };
      ({ intents, observed } = withHeldNodes({ intents: left, observed }, changes));
    }
  }

  /** Returns the changes of the plan that must be held. `isFree`: false for a write whose resource is being written. */
  review(
    planned: Plan,
    { intents, observed }: PlanInput,
    isFree: (write: Write) => boolean = () => true,
  ): Promise<readonly HeldChange[]> {
    const { client } = this.#context;
    const { loadBalancers, securityGroup, publicIPs, privateLinkServices } = observed;
    // Most plans have no writes, and find each resource as it was: they cost nothing.
    const read = [...loadBalancers, ...publicIPs, ...privateLinkServices, securityGroup];
    const isKnown = read.every((one) => one === undefined || this.#seen.has(one));
    if (planned.stages.length === 0 && isKnown) return Promise.resolve([]);
    const causeOf = this.#causesOf(planned, { intents, observed });
    const owners = ownersOf(intents, observed, this.#config);
    this.#see(observed, owners);
    this.#drifts.seen(observed, (text) => this.#servicesIn(text, owners));
    for (const one of read) if (one !== undefined) this.#seen.add(one);
    this.#owners = owners;
    const changes = changesOf(planned, { observed, owners, isFree });
    return this.guard.review(changes, { causeOf, confirmGone: (gone) => confirmGone(client, gone) });
  }

  /** Removals without a cause in a plan of all Services, and addresses of Services that no frontend has any more. */
  unrequested(
    planned: Plan,
    input: PlanInput,
    others: readonly ResourceChange[],
  ): Promise<UnrequestedRemovals | undefined> {
    const owners = ownersOf(input.intents, input.observed, this.#config);
    const changes = changesOf(planned, { observed: input.observed, owners, isFree: () => true });
    const causeOf = this.#causesOf(planned, input);
    const lost = [lostAddresses(input, this.#config), lostLinks(input, this.#config)];
    return this.guard.unrequested([...changes, ...lost, ...others], (item, change) =>
      placedKinds.has(item.kind) ? "none" : causeOf(item, change),
    );
  }

  #causesOf(planned: Plan, { intents, observed }: PlanInput): Causes["causeOf"] {
    const { informers, shards } = this.#context;
    const joining = new Set(
      planned.stages.flatMap(({ writes }) => writes.flatMap((write) => ("join" in write ? write.join : []))),
    );
    return causesOf({
      batch: intents,
      observed,
      config: this.#config,
      current: (key) => informers.of(kinds.Service).store.get(key),
      settled: (key) => this.#settled.get(key),
      joining,
      shards,
    });
  }

  /** The Services whose names are in a text. */
  #servicesIn(text: string, { keyByBase }: Owners): readonly Service[] {
    const keys = [...keyByBase].flatMap(([base, key]) => (text.includes(base) ? [key] : []));
    return keys.flatMap((key) => this.#context.informers.of(kinds.Service).store.get(key) ?? []);
  }

  /** Each version of a resource once: most are those of the plan before. */
  #see({ loadBalancers, securityGroup }: Observed, owners: Owners): void {
    const isNew = (one: object): boolean => !this.#seen.has(one);
    const isNewGroup = securityGroup !== undefined && isNew(securityGroup);
    const found = {
      loadBalancers: loadBalancers.filter(isNew),
      securityGroup: isNewGroup ? securityGroup : undefined,
    };
    for (const { id, items } of contentsOf(found, owners)) this.guard.seen(id, items);
  }

  /** One event for each Service and plan. */
  #report({ items, message }: HeldChange): void {
    const { events, informers } = this.#context;
    for (const key of new Set(items.flatMap(({ services }) => services))) {
      const service = informers.of(kinds.Service).store.get(key);
      if (service === undefined || this.#reported.get(key) === message) continue;
      this.#reported.set(key, message);
      events.event(service, "Warning", "RemovalHeld", message);
    }
  }
}

/**
 * The Services of the plan that are left out: the owners of what is held. Where these are others, or nodes that are put
 * back in vain, it is all those that the write is for.
 */
function leftOut({ change, items }: HeldChange, keys: ReadonlySet<ServiceKey>, returns: number): readonly ServiceKey[] {
  const owners = items.flatMap((item) => item.owners);
  const owned = owners.flatMap((owner) => (owner.kind === "Service" && keys.has(owner.name) ? [owner.name] : []));
  const hasNodes = owners.some(({ kind }) => kind !== "Service");
  if (owned.length > 0 || (hasNodes && returns < maxReturns)) return owned;
  return change.writers.filter((key) => keys.has(key));
}
