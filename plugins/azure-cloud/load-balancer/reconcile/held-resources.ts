import type { FrontendIPConfiguration } from "@azure/arm-network";

import { sameName } from "../../arm/resource-id.ts";
import type { Observed } from "../model/model.ts";
import type { Write } from "../model/plan-model.ts";

/**
 * Ids of the resource of a write and of the load balancers that ARM writes with it, or refuses to write meanwhile: those
 * with the public IP or the subnet of the write, that of a private link service, and that of a pool.
 */
export function heldBy(write: Write, observed: Observed): readonly string[] {
  switch (write.kind) {
    case "put-public-ip":
      return [write.id, ...balancersWith(observed, ({ publicIPAddress }) => isId(publicIPAddress?.id, write.id))];
    case "put-subnet":
      return [write.id, ...balancersWith(observed, ({ subnet }) => isId(subnet?.id, write.id))];
    case "put-private-link-service":
      return [write.id, ...balancersOf(write.body.loadBalancerFrontendIpConfigurations)];
    case "delete-private-link-service": {
      const link = observed.privateLinkServices.find(({ id }) => isId(id, write.id));
      return [write.id, ...balancersOf(link?.loadBalancerFrontendIpConfigurations)];
    }
    case "update-members":
    case "release-pools":
      return [write.id, loadBalancerOf(write.id)];
    default:
      return [write.id];
  }
}

/** Ids that a write needs: a load balancer cannot get a frontend in a subnet that is being written. */
export function subjectsOf(write: Write, observed: Observed): readonly string[] {
  const held = heldBy(write, observed);
  if (write.kind !== "put-load-balancer") return held;
  return [...held, ...(write.body.frontendIPConfigurations ?? []).flatMap(({ subnet }) => subnet?.id ?? [])];
}

/** True if other nodes are behind a load balancer after the write. The planner keeps a pool that stays as it is. */
export function movesNodes(write: Write, { loadBalancers }: Observed): boolean {
  if (write.kind !== "put-load-balancer") return write.kind === "update-members";
  const before = loadBalancers.find(({ id }) => isId(id, write.id))?.backendAddressPools ?? [];
  return before.some((pool) => !write.body.backendAddressPools?.includes(pool));
}

const isId = (id: string | undefined, other: string): boolean => id !== undefined && sameName(id, other);

const balancersWith = (
  { loadBalancers }: Observed,
  fits: (frontend: Readonly<FrontendIPConfiguration>) => boolean,
): readonly string[] =>
  loadBalancers.flatMap(({ id, frontendIPConfigurations = [] }) =>
    id !== undefined && frontendIPConfigurations.some(fits) ? [id] : [],
  );

const balancersOf = (frontends: readonly Readonly<FrontendIPConfiguration>[] = []): readonly string[] =>
  frontends.flatMap(({ id }) => (id === undefined ? [] : [loadBalancerOf(id)]));

/** The id of the load balancer that an id is in: `/subscriptions/S/resourceGroups/G/providers/P/loadBalancers/N`. */
export const loadBalancerOf = (id: string): string => id.split("/").slice(0, 9).join("/");

/** Load balancers whose members were written since they were read: their etags are outdated. */
export class OutdatedBalancers {
  /** In lower case. */
  readonly #ids = new Set<string>();

  /** `id` may be that of a part of the load balancer. */
  add(id: string): void {
    this.#ids.add(keyOf(id));
  }

  delete(id: string): void {
    this.#ids.delete(keyOf(id));
  }

  has({ id }: Write): boolean {
    return this.#ids.has(keyOf(id));
  }

  /** Removes those of the writes, or all, and returns them. */
  take(writes?: readonly Write[]): readonly string[] {
    const ids = writes === undefined ? this.#ids : new Set(writes.map(({ id }) => keyOf(id))).intersection(this.#ids);
    return [...ids].filter((id) => this.#ids.delete(id));
  }
}

const keyOf = (id: string): string => loadBalancerOf(id).toLowerCase();
