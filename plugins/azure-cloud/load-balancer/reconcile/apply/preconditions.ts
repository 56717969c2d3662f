import { isDeepStrictEqual } from "node:util";

import type { LoadBalancer, PrivateLinkService, PublicIPAddress } from "@azure/arm-network";
import { defaultLoadBalancerName, type Informer, type Service } from "cloud-controller-host/sdk";

import { startsWithName } from "../../../arm/resource-id.ts";
import { sameId } from "../../model/ids.ts";
import type { Observed } from "../../model/model.ts";
import type { Write } from "../../model/plan-model.ts";

/** The resource in the list from which a plan was made. */
export const inList = <T extends { readonly id?: string }>(list: readonly T[], id: string): T | undefined =>
  list.find((one) => sameId(one.id, id));

const namesIn = (list: readonly { readonly name?: string }[] = []): readonly string[] =>
  list.map(({ name = "" }) => name.toLowerCase()).toSorted();

const childrenOf = (balancer: LoadBalancer | undefined): readonly (readonly string[])[] =>
  [
    balancer?.frontendIPConfigurations,
    balancer?.backendAddressPools,
    balancer?.loadBalancingRules,
    balancer?.probes,
    balancer?.inboundNatRules,
    balancer?.inboundNatPools,
    balancer?.outboundRules,
  ].map(namesIn);

/** True if a load balancer that is to be deleted has nothing that was not planned for. */
export const hasSameChildren = (current: LoadBalancer, planned: LoadBalancer | undefined): boolean =>
  isDeepStrictEqual(childrenOf(current), childrenOf(planned));

/** True if a public IP is attached to a frontend that its load balancer is shown without. */
export function isContradicted(id: string, { loadBalancers, publicIPs }: Observed): boolean {
  const planned = inList(loadBalancers, id);
  if (planned === undefined) return false;
  const shown = new Set(planned.frontendIPConfigurations?.map((one) => one.id?.toLowerCase()));
  return publicIPs.some(({ ipConfiguration }) => {
    const user = ipConfiguration?.id?.toLowerCase() ?? "";
    return startsWithName(user, `${id}/`) && !shown.has(user);
  });
}

/** True if a public IP that is to be deleted has the owners that it was planned with. ARM keeps one that is in use. */
export const hasSameOwners = (current: PublicIPAddress, planned: PublicIPAddress | undefined): boolean =>
  isDeepStrictEqual([current.tags ?? {}, current.ipTags ?? []], [planned?.tags ?? {}, planned?.ipTags ?? []]);

const claimOf = (link: PrivateLinkService | undefined) => [
  link?.tags ?? {},
  (link?.loadBalancerFrontendIpConfigurations ?? []).map(({ id }) => id?.toLowerCase()),
];

/** True if a private link service that is to be deleted has its owner and frontends, and no further connection. */
export const hasSameClaim = (
  current: PrivateLinkService,
  planned: PrivateLinkService | undefined,
  connections: readonly string[],
): boolean =>
  isDeepStrictEqual(claimOf(current), claimOf(planned)) &&
  (current.privateEndpointConnections ?? []).every(({ name = "" }) => connections.includes(name));

const withoutEtags = (value: unknown): string =>
  JSON.stringify(value, (key, inner: unknown) => (key === "etag" ? undefined : inner));

/** True for two replies about one resource that differ in nothing but etags. */
export const isSameExceptEtags = (left: unknown, right: unknown): boolean => withoutEtags(left) === withoutEtags(right);

const uidOf = ({ metadata }: Service): string => metadata?.uid ?? "";

/**
 * Services that were created since this process has led, where no other deployment serves any: nothing else has written
 * for them. What has their UID in its name exists nowhere, whatever a list shows, until this process creates it.
 * Everything else that is to be created is read first.
 */
export class NewServices {
  readonly #areShared: (services: readonly Service[]) => boolean;
  /** Undefined where no controller of Services runs. */
  #services: Informer<Service> | undefined;
  /** UIDs of all others. */
  #others: ReadonlySet<string> | undefined;
  /** UIDs of those for which something was created. */
  readonly #taken = new Set<string>();

  /** `areShared` tells whether another deployment serves some of the Services. */
  constructor(areShared: (services: readonly Service[]) => boolean) {
    this.#areShared = areShared;
  }

  watch(services: Informer<Service>): void {
    this.#services = services;
    services.handle({ deleted: (service) => void this.#taken.delete(uidOf(service)) });
  }

  /** To be called when this process begins to lead, and again before it plans anything. */
  begin(): void {
    if (this.#services?.hasSynced() === true) this.#others ??= new Set(this.#services.store.list().map(uidOf));
  }

  has(service: Service): boolean {
    return this.#others?.has(uidOf(service)) === false && !this.#areShared(this.#services?.store.list() ?? []);
  }

  /** True if the write creates something that cannot exist; true once for each Service. */
  take({ services: [key = "", ...more], name }: Write): boolean {
    const service = this.#services?.store.get(key);
    if (service === undefined || more.length > 0 || !this.has(service) || this.#taken.has(uidOf(service))) return false;
    this.#taken.add(uidOf(service));
    return name.includes(defaultLoadBalancerName(service));
  }
}
