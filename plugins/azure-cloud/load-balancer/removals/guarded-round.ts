import {
  type CloudContext,
  keyOf,
  kinds,
  type Node,
  type Service,
  type UnrequestedRemovals,
} from "cloud-controller-host/sdk";

import { confirmGone } from "../../removal-guard/confirm-gone.ts";
import type { Causes, HeldChange, RemovalGuard, ResourceChange } from "../../removal-guard/guard.ts";
import { type Owner, RemovalHeldError } from "../../removal-guard/rule.ts";
import { familyOf, sameAddress } from "../model/addresses.ts";
import type { Observed, ServiceIntent, ServiceKey } from "../model/model.ts";
import type { Plan, Write } from "../model/plan-model.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { observedAddresses, statusAddresses } from "../plan/draft/ingress.ts";
import { nodeName } from "../plan/draft/nodes.ts";
import { ownerTag } from "../plan/private-link/remove.ts";
import { annotations } from "../service/annotations.ts";
import { readSubject } from "../service/subject.ts";
import { causesOf } from "./causes.ts";
import { changesOf, contentsOf, itemsAfter, type Owners, ownersOf } from "./contents.ts";
import type { Drifts } from "./drifts.ts";

/** Guards between plans and their writes, shared by load balancers and routes. */
export interface Removals {
  readonly guard: RemovalGuard;
  readonly drifts: Drifts;
}

/** Input of a round. */
interface Input {
  readonly intents: readonly ServiceIntent[];
  readonly observed: Observed;
}

/** A round that removes nothing without a cause, and what it was planned from. */
export interface GuardedRound<Round> extends Input {
  readonly round: Round;
  /** Services that are left out, with the reason. */
  readonly held: ReadonlyMap<ServiceKey, RemovalHeldError>;
}

/** Number of plans with held nodes put back; after these, the Services concerned are left out. */
const maxReturns = 3;

/** The removal guard for load balancers, security groups and public IPs: it stands between a plan and its writes. */
export class GuardedRounds {
  readonly guard: RemovalGuard;
  readonly #context: Pick<CloudContext, "client" | "events" | "informers">;
  readonly #config: PlannerConfig;
  readonly #drifts: Drifts;
  readonly #seen = new WeakSet<object>();
  /** Of the last plan. */
  #owners: Owners | undefined;
  readonly #settled = new Map<ServiceKey, Service>();
  readonly #reported = new Map<ServiceKey, string>();

  constructor(
    context: Pick<CloudContext, "client" | "events" | "informers">,
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
    input: Input,
    planWith: (intents: readonly ServiceIntent[], observed: Observed) => Round,
    isFree: (write: Write, observed: Observed) => boolean = () => true,
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
      ({ intents, observed } = withNodes({ intents: left, observed }, changes));
    }
  }

  /** Returns the changes of the plan that must be held. */
  review(
    planned: Plan,
    { intents, observed }: Input,
    isFree: (write: Write, observed: Observed) => boolean = () => true,
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
    const changes = changesOf(planned, { observed, owners, isFree: (write) => isFree(write, observed) });
    return this.guard.review(changes, { causeOf, confirmGone: (gone) => confirmGone(client, gone) });
  }

  /** Removals without a cause in a plan of all Services, and addresses of Services that no frontend has any more. */
  unrequested(
    planned: Plan,
    input: Input,
    others: readonly ResourceChange[],
  ): Promise<UnrequestedRemovals | undefined> {
    const owners = ownersOf(input.intents, input.observed, this.#config);
    const changes = changesOf(planned, { observed: input.observed, owners, isFree: () => true });
    const causeOf = this.#causesOf(planned, input);
    const lost = [lostAddresses(input, this.#config), lostLinks(input, this.#config)];
    return this.guard.unrequested([...changes, ...lost, ...others], (item, change) =>
      placed.has(item.kind) ? "none" : causeOf(item, change),
    );
  }

  #causesOf(planned: Plan, { intents, observed }: Input): Causes["causeOf"] {
    const { informers } = this.#context;
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
    const found = { loadBalancers: loadBalancers.filter(isNew), securityGroup };
    for (const { id, items } of contentsOf(
      securityGroup !== undefined && isNew(securityGroup) ? found : { ...found, securityGroup: undefined },
      owners,
    ))
      this.guard.seen(id, items);
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

/** Kinds of items that only a config can take away. */
const placed: ReadonlySet<string> = new Set(["addresses", "nodes", "private links", "routes"]);

/** Addresses in the status of Services that no frontend has where the config looks for them. */
function lostAddresses({ intents, observed }: Input, config: PlannerConfig): ResourceChange {
  const items = intents.flatMap(({ service }) => {
    const { additionalAddresses } = readSubject(service, config).subject;
    const kept = [...observedAddresses(observed, service), ...additionalAddresses];
    const lost = statusAddresses(service).filter((address) => !kept.some((one) => sameAddress(one, address)));
    const key = keyOf(service);
    return lost.map((name) => ({ kind: "addresses", name: `${name} of Service ${key}`, owners: [], services: [key] }));
  });
  const group = config.loadBalancerResourceGroup;
  return { id: group, title: `resource group ${group}, which lacks it`, before: items, after: [], writers: [] };
}

/** Private link services of which the config's resource group has none. */
function lostLinks({ intents, observed }: Input, config: PlannerConfig): ResourceChange {
  const owned = new Set(observed.privateLinkServices.map(({ tags }) => tags?.[ownerTag]?.toLowerCase()));
  const items = intents.flatMap(({ service }) => {
    const key = keyOf(service);
    const wants = readSubject(service, config).subject.settings.get(annotations.plsCreate);
    const isLost = wants && statusAddresses(service).length > 0 && !owned.has(key.toLowerCase());
    return isLost ? [{ kind: "private links", name: `of Service ${key}`, owners: [], services: [key] }] : [];
  });
  const group = config.privateLinkResourceGroup;
  return {
    id: `${group}/links`,
    title: `resource group ${group}, which lacks it`,
    before: items,
    after: [],
    writers: [],
  };
}

/**
 * The Services of the plan that are left out: the owners of what is held. Where these are others, or nodes that are put
 * back in vain, it is all those that the write is for.
 */
function leftOut({ change, items }: HeldChange, keys: ReadonlySet<ServiceKey>, returns: number): readonly ServiceKey[] {
  const owners = items.flatMap((item) => item.owners);
  const owned = owners.flatMap(({ kind, name }) => (kind === "Service" && keys.has(name) ? [name] : []));
  const hasNodes = owners.some(({ kind }) => kind !== "Service");
  if (owned.length > 0 || (hasNodes && returns < maxReturns)) return owned;
  return change.writers.filter((key) => keys.has(key));
}

/** The input with the nodes and endpoints whose removal is held. */
function withNodes({ intents, observed }: Input, changes: readonly HeldChange[]): Input {
  const items = changes.flatMap((change) => change.items);
  const addresses = new Map<string, Set<string>>();
  const endpoints = new Map<ServiceKey, readonly string[]>(observed.endpointNodes);
  for (const { owners, name } of items)
    for (const owner of owners) {
      const [address = ""] = name.split(" ");
      const node = nodeOf(owner);
      if (node === undefined) continue;
      const known = addresses.getOrInsertComputed(node, () => new Set());
      if (familyOf(address) !== undefined) known.add(address);
      const key = owner.kind === "endpoint" ? owner.name.split(" ")[0] : undefined;
      if (key !== undefined) endpoints.set(key, [...(endpoints.get(key) ?? []), node]);
    }
  const back = [...addresses].flatMap(([name, known]): readonly Node[] => {
    if (known.size === 0) return [];
    const node = observed.nodes.find((one) => nodeName(one) === name) ?? { metadata: { name } };
    const present = node.status?.addresses ?? [];
    const missing = known.difference(new Set(present.map(({ address }) => address)));
    const added = [...missing].map((address) => ({ type: "InternalIP", address }));
    return [{ ...node, status: { ...node.status, addresses: [...present, ...added] } }];
  });
  const join = (nodes: readonly Node[]): readonly Node[] => {
    const names = new Set(back.map(nodeName));
    return [...nodes.filter((one) => !names.has(nodeName(one))), ...back];
  };
  return {
    intents: intents.map((intent) => ({ ...intent, nodes: join(intent.nodes) })),
    observed: {
      ...observed,
      nodes: join(observed.nodes),
      deletedNodes: observed.deletedNodes.difference(new Set(addresses.keys())),
      endpointNodes: endpoints,
    },
  };
}

const nodeOf = ({ kind, name }: Owner): string | undefined =>
  kind === "Node" ? name : kind === "endpoint" ? name.split(" ")[1] : undefined;
