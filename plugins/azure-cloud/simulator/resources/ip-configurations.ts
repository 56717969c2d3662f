import { objectsAt, stringAt } from "../../json.ts";
import type { Resource } from "../state/store.ts";
import type { SubscriptionState } from "../state/subscription-state.ts";
import { idAt, idsAt, nameOf, parentId, propertiesOf, ReferenceIndex } from "./references.ts";
import { interfaceView, modelInterfaces } from "./scale-set-views.ts";

/** An IP configuration of a standalone or an instance's interface, which uses addresses, subnets and backend pools. */
export interface IpConfiguration {
  readonly id: string;
  readonly subnet: string | undefined;
  readonly address: string | undefined;
  readonly publicIP: string | undefined;
  readonly pools: readonly string[];
}

export interface IpConfigurationIndex {
  readonly all: readonly IpConfiguration[];
  /** IP configurations by backend pool. */
  readonly byPool: ReferenceIndex;
}

const scaleSetsType = "microsoft.compute/virtualmachinescalesets";
const interfacesType = "microsoft.network/networkinterfaces";

const scaleSetsOf = (state: SubscriptionState): readonly Resource[] =>
  state.store.listType(state.subscription, scaleSetsType);

/** Pools of every interface configuration in a scale set's model or in one instance's profile. */
export const poolsOfInterfaces = (interfaces: readonly object[]): readonly string[] =>
  objectsAt({ interfaces }, "interfaces").flatMap((nic) =>
    objectsAt(propertiesOf(nic), "ipConfigurations").flatMap((configuration) =>
      idsAt(propertiesOf(configuration), "loadBalancerBackendAddressPools"),
    ),
  );

const indexes = new WeakMap<SubscriptionState, { readonly revision: string; readonly index: IpConfigurationIndex }>();

/** Every IP configuration of the subscription; built again only after an interface or an instance has changed. */
export function ipConfigurationsOf(state: SubscriptionState): IpConfigurationIndex {
  const revision = state.interfacesRevision();
  const known = indexes.get(state);
  if (known?.revision === revision) return known.index;
  const all = [...standalone(state), ...ofInstances(state)];
  const byPool = new ReferenceIndex();
  for (const { id, pools } of all) for (const pool of pools) byPool.add(pool, id);
  indexes.set(state, { revision, index: { all, byPool } });
  return { all, byPool };
}

function* standalone(state: SubscriptionState): Generator<IpConfiguration> {
  for (const nic of state.store.listType(state.subscription, interfacesType))
    yield* configurationsOf(state.shownByOthers(nic), nic.id);
}

function* ofInstances(state: SubscriptionState): Generator<IpConfiguration> {
  for (const scaleSet of scaleSetsOf(state))
    for (const instance of state.instances(scaleSet.id))
      for (const nic of interfaceView(scaleSet, instance)) yield* configurationsOf(nic, String(nic["id"]));
}

function* configurationsOf(nic: Readonly<Record<string, unknown>>, nicId: string): Generator<IpConfiguration> {
  for (const configuration of objectsAt(propertiesOf(nic), "ipConfigurations")) {
    const properties = propertiesOf(configuration);
    yield {
      id: stringAt(configuration, "id") ?? `${nicId}/ipConfigurations/${nameOf(configuration)}`,
      subnet: idAt(properties, "subnet"),
      address: stringAt(properties, "privateIPAddress"),
      publicIP: idAt(properties, "publicIPAddress"),
      pools: idsAt(properties, "loadBalancerBackendAddressPools"),
    };
  }
}

/** A scale set whose model or one of whose instances is in a pool of the load balancer. */
export function scaleSetUsing(
  state: SubscriptionState,
  isUsed: (pool: string) => boolean,
): { readonly scaleSet: Resource; readonly pool: string } | undefined {
  for (const scaleSet of scaleSetsOf(state)) {
    const profiles = [modelInterfaces(scaleSet)];
    for (const { networkInterfaceConfigurations } of state.instances(scaleSet.id))
      if (profiles.at(-1) !== networkInterfaceConfigurations) profiles.push(networkInterfaceConfigurations);
    for (const profile of profiles) {
      const pool = poolsOfInterfaces(profile).find(isUsed);
      if (pool !== undefined) return { scaleSet, pool };
    }
  }
  return undefined;
}

/** A change of membership changes the load balancer: it has a new etag. */
export function touchLoadBalancers(
  state: SubscriptionState,
  before: readonly string[],
  after: readonly string[],
): void {
  const lower = (pools: readonly string[]): ReadonlySet<string> => new Set(pools.map((pool) => pool.toLowerCase()));
  const changed = lower(before).symmetricDifference(lower(after));
  for (const loadBalancer of new Set([...changed].map(parentId))) state.store.touch(loadBalancer);
}
