import { parseArmPath, sameName } from "../../arm/resource-id.ts";
import type { Family } from "../model/model.ts";

/** Puts one network interface into a backend pool, or takes it out. */
export interface PoolEdit {
  readonly poolId: string;
  readonly family: Family;
  readonly change: "join" | "leave";
}

interface PoolReference {
  readonly id?: string;
}

/** An IP configuration of a network interface, an instance or a scale-set model. */
export interface IPConfiguration {
  readonly primary?: boolean;
  readonly privateIPAddressVersion?: string;
  readonly loadBalancerBackendAddressPools?: readonly PoolReference[];
}

export interface EditOptions {
  /** With the standard SKU an IP configuration can be in the pools of one load balancer and its internal twin only. */
  readonly standard: boolean;
}

const poolsOf = (configuration: IPConfiguration): readonly PoolReference[] =>
  configuration.loadBalancerBackendAddressPools ?? [];

const isIn = (configuration: IPConfiguration, poolId: string): boolean =>
  poolsOf(configuration).some(({ id }) => sameName(id ?? "", poolId));

/** Lower-case name of the load balancer of a pool; the internal one of a pair has the other's name. */
function pairOf(poolId: string): string {
  const name = parseArmPath(poolId)?.names[0]?.toLowerCase() ?? "";
  return name.endsWith("-internal") ? name.slice(0, -"-internal".length) : name;
}

const belongsElsewhere = (configuration: IPConfiguration, poolId: string): boolean =>
  poolsOf(configuration).some(({ id }) => pairOf(id ?? "") !== pairOf(poolId));

const isIPv6 = ({ privateIPAddressVersion }: IPConfiguration): boolean =>
  privateIPAddressVersion?.toLowerCase() === "ipv6";

/** The configuration that carries a family's traffic: the only or the primary one of IPv4, the first of IPv6. */
function targetOf<Configuration extends IPConfiguration>(
  configurations: readonly Configuration[],
  family: Family,
): Configuration | undefined {
  const ofFamily = configurations.filter((one) => isIPv6(one) === (family === "IPv6"));
  return ofFamily.find(({ primary }) => primary) ?? ofFamily[0];
}

/** The configurations after the edits; undefined when nothing changes. A join that is not possible is left out. */
export function editPools<Configuration extends IPConfiguration>(
  configurations: readonly Configuration[],
  edits: readonly PoolEdit[],
  { standard }: EditOptions,
): readonly Configuration[] | undefined {
  let edited = configurations;
  for (const { poolId, family, change } of edits) {
    if (change === "leave") {
      if (edited.some((one) => isIn(one, poolId))) edited = edited.map((one) => without(one, poolId));
      continue;
    }
    const target = targetOf(edited, family);
    if (target === undefined || isIn(target, poolId) || (standard && belongsElsewhere(target, poolId))) continue;
    const pools = [...poolsOf(target), { id: poolId }];
    edited = edited.map((one) => (one === target ? { ...one, loadBalancerBackendAddressPools: pools } : one));
  }
  return edited === configurations ? undefined : edited;
}

const without = <Configuration extends IPConfiguration>(configuration: Configuration, poolId: string): Configuration =>
  isIn(configuration, poolId)
    ? {
        ...configuration,
        loadBalancerBackendAddressPools: poolsOf(configuration).filter(({ id }) => !sameName(id ?? "", poolId)),
      }
    : configuration;

export interface InterfaceConfiguration<Configuration> {
  readonly primary?: boolean;
  readonly ipConfigurations?: readonly Configuration[];
}

/** The same for several network interfaces: joins concern the primary one, leaves all of them. */
export function editInterfaces<
  Configuration extends IPConfiguration,
  Interface extends InterfaceConfiguration<Configuration>,
>(
  interfaces: readonly Interface[],
  edits: readonly PoolEdit[],
  options: EditOptions,
): readonly Interface[] | undefined {
  const primary = interfaces.length === 1 ? interfaces[0] : interfaces.find((one) => one.primary);
  let changed = false;
  const edited = interfaces.map((one) => {
    const concerned = one === primary ? edits : edits.filter(({ change }) => change === "leave");
    const ipConfigurations = editPools(one.ipConfigurations ?? [], concerned, options);
    if (ipConfigurations === undefined) return one;
    changed = true;
    return { ...one, ipConfigurations };
  });
  return changed ? edited : undefined;
}
