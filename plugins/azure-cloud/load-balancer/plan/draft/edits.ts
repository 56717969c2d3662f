import type {
  BackendAddressPool,
  FrontendIPConfiguration,
  LoadBalancer,
  LoadBalancingRule,
  Probe,
} from "@azure/arm-network";

import { sameName } from "../../../arm/resource-id.ts";
import { lowerId, sameId } from "../../model/ids.ts";
import { isServiceFrontend } from "../../model/names.ts";
import { oncePer } from "../../model/once-per.ts";

/** A load balancer as planning passes it on: never changed in place, and the same object where an edit has no effect. */
export type Balancer = Readonly<LoadBalancer>;

interface Child {
  readonly id?: string;
  readonly name?: string;
}

type ListKey = "frontendIPConfigurations" | "backendAddressPools" | "loadBalancingRules" | "probes";

/**
 * Positions of items in lists by a name that ARM compares in any case. Lists are never changed in place: one that is
 * asked for a second time gets an index; until then it is likely to be replaced, and is only searched. A list to which
 * items were added takes over the index of the one before it, or else each Service of a plan would have to search again.
 */
class ListIndex<T> {
  readonly #nameOf: (item: T) => string;
  readonly #known = new WeakMap<readonly T[], Map<string, number[]> | undefined>();

  constructor(nameOf: (item: T) => string | undefined) {
    this.#nameOf = (item) => nameOf(item) ?? "";
  }

  /** In ascending order. */
  positionsOf(list: readonly T[], name: string): readonly number[] {
    const known = this.#known.get(list);
    if (known !== undefined) return known.get(name.toLowerCase()) ?? [];
    const isFirst = !this.#known.has(list);
    this.#known.set(list, isFirst ? undefined : this.#indexOf(list));
    return isFirst
      ? list.flatMap((item, position) => (sameName(this.#nameOf(item), name) ? [position] : []))
      : this.positionsOf(list, name);
  }

  /** `next` is the list with more items at its end. */
  extend(list: readonly T[], next: readonly T[]): void {
    if (!this.#known.has(list)) return;
    const index = this.#known.get(list);
    this.#known.delete(list);
    this.#known.set(next, index);
    if (index !== undefined) this.#add(index, next, list.length);
  }

  #indexOf(list: readonly T[]): Map<string, number[]> {
    const index = new Map<string, number[]>();
    this.#add(index, list, 0);
    return index;
  }

  #add(index: Map<string, number[]>, list: readonly T[], from: number): void {
    for (const [offset, item] of list.slice(from).entries())
      index.getOrInsertComputed(this.#nameOf(item).toLowerCase(), () => []).push(from + offset);
  }
}

const byName = new ListIndex<Child>(({ name }) => name);

/** Base name of the Service that a rule, probe or frontend is named after, in the case of the name. */
export function exactBaseOf({ name = "" }: Child): string {
  const end = name.indexOf("-");
  return end < 0 ? name : name.slice(0, end);
}

/** As `exactBaseOf`, in lower case. */
export const baseOf = (child: Child): string => exactBaseOf(child).toLowerCase();

const byBase = new ListIndex<Child>(baseOf);
const byPublicIP = new ListIndex<FrontendIPConfiguration>(({ publicIPAddress }) => publicIPAddress?.id);
const byFrontend = new ListIndex<LoadBalancingRule>(({ frontendIPConfiguration }) => frontendIPConfiguration?.id);

/** Rules of a frontend, in their order. */
export const rulesOn = (
  { loadBalancingRules: list = [] }: Balancer,
  frontendId: string,
): readonly LoadBalancingRule[] => byFrontend.positionsOf(list, frontendId).flatMap((position) => list[position] ?? []);

/** Frontends with a public IP, in their order. */
export const frontendsWith = (
  { frontendIPConfigurations: list = [] }: Balancer,
  publicIPId: string,
): readonly FrontendIPConfiguration[] =>
  byPublicIP.positionsOf(list, publicIPId).flatMap((position) => list[position] ?? []);

/** Rules, probes or frontends of the Service of a base name, in any case and in their order; see `hasBase`. */
export const namedFor = <T extends Child>(list: readonly T[] = [], base: string): readonly T[] =>
  byBase.positionsOf(list, base).flatMap((position) => list[position] ?? []);

/** Lower-case ids of the pools that rules of a load balancer use. */
export const ruledPools = oncePer(
  ({ loadBalancingRules = [] }: Balancer): ReadonlySet<string> =>
    new Set(loadBalancingRules.map(({ backendAddressPool = {} }) => lowerId(backendAddressPool))),
);

const basesOf = oncePer(
  ({ loadBalancingRules = [], probes = [], frontendIPConfigurations = [] }: Balancer): ReadonlySet<string> =>
    new Set([...loadBalancingRules, ...probes, ...frontendIPConfigurations].map(baseOf)),
);

/** True if a load balancer as it was observed has rules, probes or frontends of the Service of a base name. */
export const hasPartsOf = (balancer: Balancer | undefined, base: string): boolean =>
  balancer !== undefined && basesOf(balancer).has(base.toLowerCase());

/** The list with every item of `wanted`: unequal ones of the same name are replaced. Undefined if nothing changes. */
function withItems<T extends Child>(
  list: readonly T[],
  wanted: readonly T[],
  equal: (left: T, right: T) => boolean,
  indexes: readonly Pick<ListIndex<T>, "extend">[],
): T[] | undefined {
  let next: T[] | undefined;
  let isExtended = true;
  const added = new Map<string, number>();
  for (const item of wanted) {
    const name = item.name ?? "";
    const index = added.get(name.toLowerCase()) ?? byName.positionsOf(list, name)[0];
    const present = index === undefined ? undefined : (next ?? list)[index];
    if (present !== undefined && equal(present, item)) continue;
    next ??= [...list];
    if (index === undefined || present === undefined) added.set(name.toLowerCase(), next.push(item) - 1);
    else {
      next[index] = item;
      isExtended = false;
    }
  }
  if (next !== undefined && isExtended) for (const one of indexes) one.extend(list, next);
  return next;
}

const replace = (balancer: Balancer, change: Partial<Pick<LoadBalancer, ListKey>>): Balancer => ({
  ...balancer,
  ...change,
});

export function withRules(
  balancer: Balancer,
  rules: readonly LoadBalancingRule[],
  equal: (left: LoadBalancingRule, right: LoadBalancingRule) => boolean,
): Balancer {
  const list = balancer.loadBalancingRules ?? [];
  const next = withItems(list, rules, equal, [byName, byBase, byFrontend]);
  return next === undefined ? balancer : replace(balancer, { loadBalancingRules: next });
}

export function withProbes(
  balancer: Balancer,
  probes: readonly Probe[],
  equal: (left: Probe, right: Probe) => boolean,
): Balancer {
  const list = balancer.probes ?? [];
  const next = withItems(list, probes, equal, [byName, byBase]);
  return next === undefined ? balancer : replace(balancer, { probes: next });
}

export function withFrontend(balancer: Balancer, frontend: FrontendIPConfiguration): Balancer {
  const list = balancer.frontendIPConfigurations ?? [];
  const next = [...list, frontend];
  for (const one of [byBase, byPublicIP]) one.extend(list, next);
  return replace(balancer, { frontendIPConfigurations: next });
}

export function withPool(balancer: Balancer, pool: BackendAddressPool): Balancer {
  const list = balancer.backendAddressPools ?? [];
  const next = withItems(list, [pool], (left, right) => left === right, [byName]);
  return next === undefined ? balancer : replace(balancer, { backendAddressPools: next });
}

/** The balancer without some of its rules. */
export function withoutRules(balancer: Balancer, removed: readonly LoadBalancingRule[]): Balancer {
  if (removed.length === 0) return balancer;
  const left = new Set(balancer.loadBalancingRules).difference(new Set(removed));
  return replace(balancer, { loadBalancingRules: [...left] });
}

export function withoutProbes(balancer: Balancer, removed: readonly Probe[]): Balancer {
  if (removed.length === 0) return balancer;
  return replace(balancer, { probes: [...new Set(balancer.probes).difference(new Set(removed))] });
}

export function withoutFrontends(
  balancer: Balancer,
  isRemoved: (frontend: FrontendIPConfiguration) => boolean,
): Balancer {
  const list = balancer.frontendIPConfigurations ?? [];
  return list.some(isRemoved)
    ? replace(balancer, { frontendIPConfigurations: list.filter((frontend) => !isRemoved(frontend)) })
    : balancer;
}

export function withoutPools(balancer: Balancer, isRemoved: (pool: BackendAddressPool) => boolean): Balancer {
  const list = balancer.backendAddressPools ?? [];
  return list.some(isRemoved)
    ? replace(balancer, { backendAddressPools: list.filter((pool) => !isRemoved(pool)) })
    : balancer;
}

/**
 * Names of rules, NAT rules, NAT pools and outbound rules that use the frontend, rules for which `isOwn` holds left out.
 * A frontend with users stays. Source: upstream `isFrontendIPConfigUnsafeToDelete`.
 */
export function usersOf(
  balancer: Balancer,
  frontendId: string | undefined,
  isOwn: (rule: LoadBalancingRule) => boolean,
): readonly string[] {
  if (frontendId === undefined) return [];
  const uses = (user: { frontendIPConfiguration?: { id?: string } }): boolean =>
    sameId(user.frontendIPConfiguration?.id, frontendId);
  const outbound = (balancer.outboundRules ?? []).filter(({ frontendIPConfigurations }) =>
    frontendIPConfigurations?.some(({ id }) => sameId(id, frontendId)),
  );
  const users: readonly Child[] = [
    ...(balancer.loadBalancingRules ?? []).filter((rule) => uses(rule) && !isOwn(rule)),
    ...(balancer.inboundNatRules ?? []).filter(uses),
    ...(balancer.inboundNatPools ?? []).filter(uses),
    ...outbound,
  ];
  return users.map(({ name }) => name ?? "");
}

/** True if nothing is left that is in use or not ours, so that the load balancer can be deleted. */
export const isAbandoned = (balancer: Balancer, isOwnPool: (name: string) => boolean): boolean =>
  [
    balancer.frontendIPConfigurations,
    balancer.loadBalancingRules,
    balancer.probes,
    balancer.inboundNatRules,
    balancer.inboundNatPools,
    balancer.outboundRules,
  ].every((list) => list === undefined || list.length === 0) &&
  (balancer.backendAddressPools ?? []).every(({ name }) => isOwnPool(name ?? ""));

/** Frontends of a Service that has no rule left, created under another Service's name. */
export const isOrphan = (balancer: Balancer, { id, name }: FrontendIPConfiguration): boolean =>
  isServiceFrontend(name) && usersOf(balancer, id, () => false).length === 0;
