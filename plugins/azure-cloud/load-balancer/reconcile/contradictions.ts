import { type Clock, CodedError, keyOf, type Service } from "cloud-controller-host/sdk";

import { sameName } from "../../arm/resource-id.ts";
import type { NetworkResources } from "../../arm/writes/network-resources.ts";
import type { ArmResource, Resources } from "../../arm/writes/resources.ts";
import { groupOf, loadBalancerId } from "../model/ids.ts";
import type { Observed, ServiceIntent, ServiceKey } from "../model/model.ts";
import { internalSuffix, isInternalName, isServiceFrontend } from "../model/names.ts";
import { balancerName, type PlannerConfig } from "../model/planner-config.ts";
import { statusAddresses } from "../plan/draft/ingress.ts";
import { clusterIn, servicesIn } from "../plan/public-ip/owners.ts";
import { readSubject } from "../service/subject.ts";

type Lists = Pick<Observed, "loadBalancers" | "publicIPs">;

/** A read that contradicts another one about a Service. */
interface Contradiction {
  readonly key: ServiceKey;
  readonly message: string;
  /** IDs of resources to be read individually. */
  readonly loadBalancers: readonly string[];
  readonly publicIPs: readonly string[];
  /** Set when the address in its status is all that is left. */
  readonly deleted?: Service;
}

interface Options {
  readonly config: PlannerConfig;
  readonly network: NetworkResources;
  readonly clock: Clock;
  /** The Service as the API server has it. */
  readonly current: (service: Service) => Service | undefined;
}

/** For so long, reads may lag behind writes. */
const lagMs = 60_000;
const missing = (what: string, why: string): string => `${why}, but ${what}: nothing is removed until the reads agree`;

/**
 * Lists may lag, lack a page, or be those of a wrong resource group. What contradicts a list is read individually. If the
 * contradiction remains, the Service fails and is tried again: taking it for an absence would remove its finalizer and
 * leave its load balancer behind. An address in a status alone proves little in the long run, since another client may have
 * deleted the load balancer.
 */
export class Contradictions {
  readonly #options: Options;
  /** When something was last seen of a Service that is being deleted, by UID: this process is removing it. */
  readonly #seenMs = new Map<string, number>();
  #sinceMs: number | undefined;

  constructor(options: Options) {
    this.#options = options;
  }

  /** The lists with what was read again, and the errors of Services for which they still contradict each other. */
  async settle(
    intents: readonly ServiceIntent[],
    lists: Lists,
    isUnreadable: (group: string) => boolean,
  ): Promise<Lists & { readonly errors: ReadonlyMap<ServiceKey, unknown> }> {
    this.#sinceMs ??= this.#options.clock.monotonic();
    const errors = new Map<ServiceKey, unknown>();
    const found = this.#find(intents, lists, isUnreadable);
    if (found.length === 0) return { ...lists, errors };
    const { network } = this.#options;
    const [loadBalancers, publicIPs] = await Promise.all([
      readAll(network.loadBalancers, lists.loadBalancers, found, ({ loadBalancers: ids }) => ids, errors),
      readAll(network.publicIPs, lists.publicIPs, found, ({ publicIPs: ids }) => ids, errors),
    ]);
    const read = { loadBalancers, publicIPs };
    for (const { key, message, deleted } of this.#find(intents, read, isUnreadable))
      if (!errors.has(key) && (deleted === undefined || !this.#isAbsent(deleted, read)))
        errors.set(key, new CodedError("ContradictoryReads", `${key}: ${message}`));
    return { ...read, errors };
  }

  /**
   * Whether reads made for it prove that nothing is left of a Service but its status: its load balancer is there without
   * it, or no load balancer is there, and nothing was written for it lately. This process has written nothing before it
   * started, and no process since the deletion was requested.
   */
  #isAbsent(service: Service, { loadBalancers }: Lists): boolean {
    const { clock, config, network } = this.#options;
    const { uid = "", deletionTimestamp = "" } = service.metadata ?? {};
    if (this.#hasBalancer(service, loadBalancers)) return true;
    if (network.loadBalancers.isMissing(config.loadBalancerResourceGroup)) return false;
    if (this.#seenMs.has(uid)) return true;
    return clock.monotonic() - (this.#sinceMs ?? 0) >= lagMs || clock.now() - Date.parse(deletionTimestamp) >= lagMs;
  }

  #find(
    intents: readonly ServiceIntent[],
    lists: Lists,
    isUnreadable: (group: string) => boolean,
  ): readonly Contradiction[] {
    const { config } = this.#options;
    if (config.serviceGateway || intents.length === 0) return [];
    const keys = new Map(intents.map(({ service }) => [readSubject(service, config).subject.base, keyOf(service)]));
    return [
      ...this.#withoutFrontend(intents, lists),
      ...withoutBalancer(new Set(keys.values()), lists, config),
      ...withoutPublicIP(keys, lists, config).filter(({ publicIPs: [id] }) => !isUnreadable(groupOf(id))),
    ];
  }

  /** Whether there is a load balancer of its kind, which may be without the Service. */
  #hasBalancer(service: Service, loadBalancers: Lists["loadBalancers"]): boolean {
    const { internal } = readSubject(service, this.#options.config).subject;
    return loadBalancers.some(({ name = "" }) => isInternalName(name) === internal);
  }

  /** Whether something of the Service is there, or was lately: then its absence is the work of this process. */
  #isSeen({ metadata: { uid = "" } = {} }: Service, isThere: boolean): boolean {
    const nowMs = this.#options.clock.monotonic();
    for (const [one, atMs] of this.#seenMs) {
      if (nowMs - atMs < lagMs) break;
      this.#seenMs.delete(one);
    }
    if (isThere) {
      this.#seenMs.delete(uid);
      this.#seenMs.set(uid, nowMs);
    }
    return this.#seenMs.has(uid);
  }

  /** Deleted Services with an address in their status of which nothing else is left. */
  #withoutFrontend(intents: readonly ServiceIntent[], { loadBalancers, publicIPs }: Lists): readonly Contradiction[] {
    const { config, current } = this.#options;
    const bases = new Set(
      loadBalancers
        .flatMap(({ frontendIPConfigurations = [], loadBalancingRules = [] }) => [
          ...frontendIPConfigurations,
          ...loadBalancingRules,
        ])
        .map(({ name = "" }) => name.split("-", 1)[0]?.toLowerCase()),
    );
    // One that is attached has a frontend somewhere.
    const free = publicIPs.filter(({ ipConfiguration }) => ipConfiguration?.id === undefined);
    const owners = new Set(free.flatMap(({ tags }) => servicesIn(tags)));
    return intents.flatMap(({ service, action }) => {
      if (action !== "delete") return [];
      const { base, key } = readSubject(service, config).subject;
      const isThere = bases.has(base) || owners.has(key);
      if (this.#isSeen(service, isThere) && (isThere || this.#hasBalancer(service, loadBalancers))) return [];
      const stored = current(service);
      const isSame = stored?.metadata?.uid === service.metadata?.uid;
      const addresses = [
        ...statusAddresses(service),
        ...(stored !== undefined && isSame ? statusAddresses(stored) : []),
      ];
      if (addresses.length === 0) return [];
      const message = missing(
        `no load balancer of resource group ${config.loadBalancerResourceGroup} has a frontend for it`,
        `address ${addresses[0]} is in the status`,
      );
      return [{ key: keyOf(service), message, loadBalancers: balancerIds(config), publicIPs: [], deleted: service }];
    });
  }
}

/** The load balancers that the config names. Basic ones are named by their VM sets. */
function balancerIds(config: PlannerConfig): readonly string[] {
  const single = balancerName(config);
  const names = config.loadBalancers.length > 0 ? config.loadBalancers.map(({ name }) => name) : [single];
  return names.flatMap((name) => [loadBalancerId(config, name), loadBalancerId(config, name + internalSuffix)]);
}

/** Public IPs of the Services that are attached to a load balancer of the cluster's resource group that is not listed. */
function withoutBalancer(keys: ReadonlySet<ServiceKey>, lists: Lists, config: PlannerConfig): readonly Contradiction[] {
  const listed = new Set(lists.loadBalancers.map(({ id = "" }) => id.toLowerCase()));
  return lists.publicIPs.flatMap(({ id = "", tags, ipConfiguration }) => {
    const [, balancer] =
      /^(.+\/loadBalancers\/[^/]+)\/frontendIPConfigurations\//iu.exec(ipConfiguration?.id ?? "") ?? [];
    const cluster = clusterIn(tags);
    if (balancer === undefined || listed.has(balancer.toLowerCase())) return [];
    if (
      groupOf(balancer) !== config.loadBalancerResourceGroup ||
      (cluster !== "" && !sameName(cluster, config.clusterName))
    )
      return [];
    const message = missing("that does not exist", `public IP ${id} is attached to load balancer ${balancer}`);
    return servicesIn(tags).flatMap((key) =>
      keys.has(key) ? [{ key, message, loadBalancers: [balancer], publicIPs: [id] }] : [],
    );
  });
}

/** Frontends of the Services, by base name, whose public IP is not listed. */
function withoutPublicIP(
  keys: ReadonlyMap<string, ServiceKey>,
  lists: Lists,
  { networkSubscription }: PlannerConfig,
): readonly Contradiction[] {
  const listed = new Set(lists.publicIPs.map(({ id = "" }) => id.toLowerCase()));
  return lists.loadBalancers.flatMap(({ id: balancer = "", frontendIPConfigurations = [] }) =>
    frontendIPConfigurations.flatMap(({ name = "", publicIPAddress: { id = "" } = {} }) => {
      const key = isServiceFrontend(name) ? keys.get(name.split("-", 1)[0] ?? "") : undefined;
      if (key === undefined || id === "" || listed.has(id.toLowerCase())) return [];
      if (!id.toLowerCase().startsWith(`/subscriptions/${networkSubscription.toLowerCase()}/`)) return [];
      const message = missing("that does not exist", `frontend ${name} of ${balancer} has public IP ${id}`);
      return [{ key, message, loadBalancers: [balancer], publicIPs: [id] }];
    }),
  );
}

/** The list with the resources that were read by themselves; a read that fails is an error of its Services. */
async function readAll<Item extends ArmResource>(
  resources: Pick<Resources<Item>, "read">,
  list: readonly Item[],
  found: readonly Contradiction[],
  idsOf: (one: Contradiction) => readonly string[],
  errors: Map<ServiceKey, unknown>,
): Promise<readonly Item[]> {
  const items = new Map(list.map((item) => [(item.id ?? "").toLowerCase(), item]));
  const ids = Map.groupBy(
    found.flatMap((one) => idsOf(one).map((id) => ({ id, key: one.key }))),
    ({ id }) => id.toLowerCase(),
  );
  const reads = [...ids].map(async ([key, users]) => {
    try {
      const item = await resources.read(users[0]?.id ?? key);
      if (item === undefined) items.delete(key);
      else items.set(key, item);
    } catch (error) {
      for (const user of users) errors.set(user.key, error);
    }
  });
  await Promise.all(reads);
  return [...items.values()];
}
