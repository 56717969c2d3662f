import type { LoadBalancer } from "@azure/arm-network";
import { type Clock, CodedError, keyOf, type Service } from "cloud-controller-host/sdk";

import { groupOf, sameName } from "../../../arm/resource-id.ts";
import type { NetworkResources } from "../../../arm/writes/network-resources.ts";
import type { ArmResource, Resources } from "../../../arm/writes/resources.ts";
import { loadBalancerId, publicIPId } from "../../model/ids.ts";
import type { Observed, ServiceIntent, ServiceKey } from "../../model/model.ts";
import { internalSuffix, isServiceFrontend, publicIPName } from "../../model/names.ts";
import type { Write } from "../../model/plan-model.ts";
import { balancerName, type PlannerConfig } from "../../model/planner-config.ts";
import { statusAddresses } from "../../plan/draft/ingress.ts";
import { clusterIn, servicesIn } from "../../plan/public-ip/owners.ts";
import { readSubject, type Subject, wantedPrefix, wantedPublicIP } from "../../service/subject.ts";
import type { WriteOutcome } from "../apply/apply.ts";
import type { NewServices } from "../apply/preconditions.ts";
import { anywhere, ServiceTraces } from "./service-traces.ts";

type Lists = Pick<Observed, "loadBalancers" | "publicIPs">;

/** A read that contradicts another one about a Service. */
interface Contradiction {
  readonly key: ServiceKey;
  readonly message: string;
  /** IDs of resources to be read individually. */
  readonly loadBalancers: readonly string[];
  readonly publicIPs: readonly string[];
}

interface Options {
  readonly config: PlannerConfig;
  readonly network: NetworkResources;
  readonly clock: Clock;
  /** The Service as the API server has it. */
  readonly current: (service: Service) => Service | undefined;
  readonly newServices: NewServices;
}

/** Maximum lag of reads behind writes. */
const lagMs = 60_000;
const missing = (what: string, why: string): string => `${why}, but ${what}: nothing is removed until the reads agree`;

/**
 * Lists may lag, lack a page, or be those of a wrong resource group. What contradicts a list is read individually. If the
 * contradiction remains, the Service fails and is tried again: taking it for an absence would remove its finalizer and
 * leave its load balancer behind. That nothing is found of a deleted Service, or nothing where it was written, is such a
 * contradiction as long as a write for it may be so recent that reads do not show it yet; an address in its status alone
 * proves little after that, since another client may have deleted the load balancer.
 */
export class Contradictions {
  readonly #options: Options;
  /** The ends of writes that may have created something, and the reads of Services that this process removes. */
  readonly #traces: ServiceTraces;
  /** When this process began to lead; without a call of `begin`, its first read. */
  #sinceMs: number | undefined;

  constructor(options: Options) {
    this.#options = options;
    this.#traces = new ServiceTraces(options.clock, () => lagMs + this.#listTtlMs);
  }

  /** To be called when this process begins to lead: what it has read before, another one may have changed since. */
  begin(): void {
    this.#sinceMs = this.#options.clock.monotonic();
  }

  /** Records a write that may have created something for these Services, whatever its outcome. */
  wrote({ write, kind }: Pick<WriteOutcome, "write" | "kind">, services: readonly Service[]): void {
    const users = usersIn(write);
    const mayLeave = kind === "written" && leavingKinds.has(write.kind);
    for (const service of services) {
      const { base, key } = readSubject(service, this.#options.config).subject;
      const isOn = users.has(base) || users.has(key);
      if (mayLeave && !isOn) this.#traces.left(service, write.id);
      this.#traces.wrote(service, isOn ? write.id : anywhere);
    }
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
    const { clock, network } = this.#options;
    const readMs = clock.monotonic();
    const [loadBalancers, publicIPs] = await Promise.all([
      readAll(network.loadBalancers, lists.loadBalancers, found, ({ loadBalancers: ids }) => ids, errors),
      readAll(network.publicIPs, lists.publicIPs, found, ({ publicIPs: ids }) => ids, errors),
    ]);
    const read = { loadBalancers, publicIPs };
    for (const { key, message } of this.#find(intents, read, isUnreadable, readMs))
      if (!errors.has(key)) errors.set(key, new CodedError("ContradictoryReads", `${key}: ${message}`));
    return { ...read, errors };
  }

  /**
   * True if reads show all that may be there of a Service, which may be nothing: no write for it can be so recent that
   * they do not show it yet. This process knows its own. The one before has written nothing since this one has led, and
   * no process since the deletion was requested. `readMs` is when the reads were sent; undefined: lists, which may be from
   * a cache.
   */
  #isAllShown(service: Service, isShown: boolean, readMs: number | undefined): boolean {
    const { clock, config, network, newServices } = this.#options;
    const nowMs = clock.monotonic();
    const { deletionTimestamp = "" } = service.metadata ?? {};
    const isMissing = network.loadBalancers.isMissing(config.loadBalancerResourceGroup);
    if (!isShown && isMissing && this.#addressOf(service) !== undefined) return false;
    const { isSeen, unseen } = this.#traces.of(service);
    if (isSeen && unseen.length === 0) return true;
    const sentMs = readMs ?? nowMs - this.#listTtlMs;
    if (unseen.some((wroteMs) => sentMs - wroteMs < lagMs)) return false;
    if (newServices.has(service)) return true;
    const sinceRequestMs = clock.now() - (nowMs - sentMs) - Date.parse(deletionTimestamp);
    return sentMs - (this.#sinceMs ?? 0) >= lagMs || sinceRequestMs >= lagMs;
  }

  #find(
    intents: readonly ServiceIntent[],
    lists: Lists,
    isUnreadable: (group: string) => boolean,
    readMs?: number,
  ): readonly Contradiction[] {
    const { config } = this.#options;
    if (config.serviceGateway) return [];
    const keys = new Map(intents.map(({ service }) => [readSubject(service, config).subject.base, keyOf(service)]));
    return [
      ...this.#notShown(intents, lists, readMs).map((one) => ({
        ...one,
        publicIPs: one.publicIPs.filter((id) => !isUnreadable(groupOf(id))),
      })),
      ...withoutBalancer(new Set(keys.values()), lists, config),
      ...withoutPublicIP(keys, lists, config).filter(({ publicIPs: [id] }) => !isUnreadable(groupOf(id))),
    ];
  }

  /** Maximum age of a list. */
  get #listTtlMs(): number {
    const { loadBalancers, publicIPs } = this.#options.network;
    return Math.max(loadBalancers.ttlMs, publicIPs.ttlMs);
  }

  #addressOf(service: Service): string | undefined {
    const stored = this.#options.current(service);
    const isSame = stored?.metadata?.uid === service.metadata?.uid;
    return [...statusAddresses(service), ...(stored !== undefined && isSame ? statusAddresses(stored) : [])][0];
  }

  /** Deleted Services of which nothing is found, or not what a write has created elsewhere. */
  #notShown(
    intents: readonly ServiceIntent[],
    { loadBalancers, publicIPs }: Lists,
    readMs: number | undefined,
  ): readonly Contradiction[] {
    const { config } = this.#options;
    if (!intents.some(({ action }) => action === "delete")) return [];
    const ofBase = placesBy(loadBalancers.flatMap((balancer) => basesOn(balancer).map((base) => [base, balancer])));
    // One that is attached has a frontend somewhere.
    const free = byOwner(publicIPs.filter(({ ipConfiguration }) => ipConfiguration?.id === undefined));
    const owned = byOwner(publicIPs);
    return intents.flatMap(({ service, action }) => {
      if (action !== "delete") return [];
      const { subject } = readSubject(service, config);
      const { base, key } = subject;
      const balancers = ofBase.get(base) ?? [];
      const isShown = balancers.length > 0 || free.has(key);
      if (isShown) this.#traces.saw(service, [...balancers, ...(owned.get(key) ?? [])]);
      if (this.#isAllShown(service, isShown, readMs)) return [];
      const address = this.#addressOf(service);
      const message = missing(
        isShown
          ? "no read shows what it has created"
          : `no load balancer of resource group ${config.loadBalancerResourceGroup} has a frontend for it`,
        isShown || address === undefined
          ? "a write for it may be less than a minute old"
          : `address ${address} is in the status`,
      );
      const publicIPIds = publicIPIdsOf(subject, config);
      return [{ key: keyOf(service), message, loadBalancers: balancerIds(config), publicIPs: publicIPIds }];
    });
  }
}

/** Writes that may remove a Service from a place. */
const leavingKinds: ReadonlySet<Write["kind"]> = new Set([
  "put-load-balancer",
  "delete-load-balancer",
  "delete-public-ip",
]);

/** Base names or keys of the Services that have a part of what is written. */
function usersIn(write: Write): ReadonlySet<string> {
  if (write.kind === "put-load-balancer") return new Set(basesOn(write.body));
  return new Set(write.kind === "put-public-ip" ? servicesIn(write.body.tags) : []);
}

/** Public IPs by their Services. */
const byOwner = (publicIPs: Lists["publicIPs"]): ReadonlyMap<string, string[]> =>
  placesBy(publicIPs.flatMap((one) => servicesIn(one.tags).map((owner) => [owner, one])));

/** The ids of resources by what they are for. */
function placesBy(found: readonly (readonly [of: string, { readonly id?: string }])[]): ReadonlyMap<string, string[]> {
  const places = new Map<string, string[]>();
  for (const [of, { id = "" }] of found) places.set(of, [...(places.get(of) ?? []), id]);
  return places;
}

/** The base names of the Services that have frontends or rules there. */
const basesOn = ({ frontendIPConfigurations = [], loadBalancingRules = [] }: LoadBalancer): readonly string[] => [
  ...new Set(
    [...frontendIPConfigurations, ...loadBalancingRules].map(
      ({ name = "" }) => name.split("-", 1)[0]?.toLowerCase() ?? "",
    ),
  ),
];

/** The load balancers that the config names. Basic ones are named by their VM sets. */
function balancerIds(config: PlannerConfig): readonly string[] {
  const single = balancerName(config);
  const names = config.loadBalancers.length > 0 ? config.loadBalancers.map(({ name }) => name) : [single];
  return names.flatMap((name) => [loadBalancerId(config, name), loadBalancerId(config, name + internalSuffix)]);
}

/** The public IPs that the Service has by its present settings. One with another name is found by its tags, in a list. */
const publicIPIdsOf = (subject: Subject, config: PlannerConfig): readonly string[] =>
  subject.families.map((family) => {
    const own = publicIPName(config.clusterName, subject, family, wantedPrefix(subject, family));
    return publicIPId(config, subject.publicIPGroup, wantedPublicIP(subject, family) || own);
  });

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
