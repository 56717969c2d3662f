import type { LoadBalancer, PublicIPAddress } from "@azure/arm-network";
import { type Clock, forEachConcurrently } from "cloud-controller-host/sdk";

import { ArmError } from "../../../arm/errors.ts";
import { sameName, startsWithName } from "../../../arm/resource-id.ts";
import { placeOf } from "../../../arm/writes/resources.ts";
import { isConflicting, OutdatedError } from "../../../arm/writes/write-errors.ts";
import { sameId } from "../../model/ids.ts";
import type { Observed, ServiceKey } from "../../model/model.ts";
import type { Write } from "../../model/plan-model.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { servicesIn } from "../../plan/public-ip/owners.ts";
import { isMembersWrite, type MembersWrite } from "../../pools/member-jobs.ts";
import type { PoolMembers } from "../../pools/membership.ts";
import { isShared } from "../../service/identity.ts";
import { heldBy } from "../held-resources.ts";
import { hasSameChildren, hasSameOwners, inList, isContradicted, type NewServices } from "./preconditions.ts";
import { deletePrivateLink, type PrivateLinkWriteOptions, putPrivateLink, putSubnet } from "./private-link-writes.ts";
import { refusedReleases } from "./releases.ts";
import { provision, publicIPIn, unprovisionedIn } from "./unprovisioned.ts";

export interface ApplyOptions extends PrivateLinkWriteOptions {
  readonly members: PoolMembers;
  readonly newServices: NewServices;
  readonly clock: Clock;
  readonly config: PlannerConfig;
}

/** Outcome of one write. */
export type WriteOutcome =
  /** `requests`: number that changed something; 0 if nothing had to change. `shared`: another write counts them as well. */
  | { readonly kind: "written"; readonly write: Write; readonly requests: number; readonly shared?: true }
  /** Some of its resources are still being written; each promise resolves when one is not any more, with its error. */
  | {
      readonly kind: "unfinished";
      readonly write: MembersWrite;
      readonly requests: number;
      readonly shared?: true;
      readonly ends: readonly Promise<unknown>[];
    }
  /** Another writer was first, or the observed state is too old: plan again. */
  | { readonly kind: "conflict"; readonly write: Write; readonly error: unknown }
  | { readonly kind: "failed"; readonly write: Write; readonly error: unknown };

/** A write of one resource; a members write concerns many. */
type ResourceWrite = Exclude<Write, MembersWrite>;

/** A write in flight. */
export interface StartedWrite {
  readonly write: ResourceWrite;
  readonly promise: Promise<WriteOutcome>;
}

type PutOf<Kind extends ResourceWrite["kind"]> = Extract<ResourceWrite, { readonly kind: Kind }>;

/** The resource group of the scale set that such a refusal names. */
const scaleSetGroup = /\/resourceGroups\/([^/]+)\/providers\/Microsoft\.Compute\/virtualMachineScaleSets\//iu;

/** Public IPs, private link services and subnets written at once. */
const workers = 64;

/** Carries out the writes of plans. It decides nothing: what to write, and in which order, is in the plan. */
export class Applier {
  readonly #options: ApplyOptions;
  /** Load balancers that are written again as they are, by id: one such write is for all that wait for it. */
  readonly #repeated = new Map<string, Promise<void>>();

  constructor(options: ApplyOptions) {
    this.#options = options;
  }

  /** Starts the writes side by side. None of the promises rejects. */
  start(writes: readonly ResourceWrite[], observed: Observed): readonly StartedWrite[] {
    const started = writes.map((write) => ({ write, ...Promise.withResolvers<WriteOutcome>() }));
    void forEachConcurrently({ workers }, started, async ({ write, resolve }) => {
      resolve(await this.#one(write, observed));
    });
    return started;
  }

  async #one(write: ResourceWrite, observed: Observed): Promise<WriteOutcome> {
    try {
      await this.#write(write, observed);
      return { kind: "written", write, requests: 1 };
    } catch (error) {
      return { kind: isConflicting(error) ? "conflict" : "failed", write, error };
    }
  }

  async #write(write: ResourceWrite, observed: Observed): Promise<void> {
    const { network } = this.#options;
    switch (write.kind) {
      case "put-public-ip":
        return this.#putPublicIP(write, observed);
      case "put-load-balancer":
        return this.#putLoadBalancer(write.id, write.body, observed, write.services);
      case "put-security-group":
        return void (await network.securityGroups.put(write.id, write.body));
      case "put-private-link-service":
        return this.#ofLoadBalancer(write, observed, () => putPrivateLink(write, observed, this.#options));
      case "put-subnet":
        return putSubnet(write, this.#options);
      case "delete-private-link-service":
        return this.#ofLoadBalancer(write, observed, () => deletePrivateLink(write, observed, this.#options));
      case "delete-load-balancer":
        return this.#deleteLoadBalancer(write.id, observed);
      case "delete-public-ip":
        return this.#deletePublicIP(write.id, observed);
    }
  }

  /** ARM writes the load balancer of a private link service with it: its etag and back-references change. */
  async #ofLoadBalancer(write: ResourceWrite, observed: Observed, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } finally {
      for (const id of heldBy(write, observed))
        if (!sameName(id, write.id)) this.#options.network.loadBalancers.invalidate(id);
    }
  }

  async #putPublicIP(write: PutOf<"put-public-ip">, observed: Observed): Promise<void> {
    const { id, body } = write;
    const { network, newServices } = this.#options;
    const isListed = inList(observed.publicIPs, id) !== undefined;
    // One without an etag was changed by a write of its load balancer: it is read first, and planned again.
    await network.publicIPs.put(id, body, { isNew: !isListed && newServices.take(write) });
  }

  async #putLoadBalancer(
    id: string,
    body: LoadBalancer,
    observed: Observed,
    services: readonly ServiceKey[] = [],
  ): Promise<void> {
    const { config, clock, signal, network } = this.#options;
    const { loadBalancers, publicIPs } = network;
    if (isContradicted(id, observed)) {
      const current = await loadBalancers.read(id);
      if (current === undefined || !hasSameChildren(current, inList(observed.loadBalancers, id)))
        throw new OutdatedError(`${id} has frontends that the last list lacks`);
    }
    try {
      const written = await loadBalancers.put(id, body);
      await this.#attach(id, written.frontendIPConfigurations ?? [], observed);
    } catch (error) {
      // The write may have reached ARM all the same, and moved public IPs.
      publicIPs.forget();
      const unfinished = unprovisionedIn(error);
      if (error instanceof ArmError) await this.#detachNamed(error, observed);
      const isOwn = ({ tags }: PublicIPAddress): boolean =>
        !isShared({ config, observed }) || servicesIn(tags).some((key) => services.includes(key));
      if (unfinished === undefined || !(await provision(publicIPs, unfinished, { clock, signal, isOwn }))) throw error;
      throw new OutdatedError(`${unfinished} was not provisioned`, { cause: error });
    }
  }

  /** ARM knows of a scale set in a pool that an earlier read did not show: the next attempt reads it again. */
  async #deleteLoadBalancer(id: string, observed: Observed): Promise<void> {
    const { network, members } = this.#options;
    try {
      const planned = inList(observed.loadBalancers, id);
      await network.loadBalancers.delete(id, planned, (current) => hasSameChildren(current, planned));
    } catch (error) {
      if (error instanceof ArmError && error.code === "LoadBalancerInUseByVirtualMachineScaleSet")
        members.reads.forgetScaleSets(scaleSetGroup.exec(error.message)?.[1] ?? "");
      throw error;
    }
    await this.#attach(id, [], observed);
  }

  async #deletePublicIP(id: string, observed: Observed): Promise<void> {
    const { publicIPs } = this.#options.network;
    try {
      const planned = inList(observed.publicIPs, id);
      await publicIPs.delete(id, planned, (current) => hasSameOwners(current, planned));
    } catch (error) {
      if (!(error instanceof ArmError) || error.code !== "PublicIPAddressCannotBeDeleted") throw error;
      await this.#detachPublicIP(id, observed, error);
    }
  }

  /** ARM refuses a frontend whose public IP is attached to another one, perhaps to one that is not there any more. */
  async #detachNamed(refusal: ArmError, observed: Observed): Promise<void> {
    const named = refusal.code === "PublicIPAddressInUse" ? publicIPIn(refusal) : undefined;
    if (named !== undefined) await this.#detachPublicIP(named, observed, refusal);
  }

  /**
   * ARM refuses to delete a public IP that is attached, and to attach it elsewhere. One that something else uses stays:
   * throws the refusal. It may also be attached for the moment only, or because a write of a load balancer that failed half
   * way has removed its frontend and left the public IP attached until the load balancer is written again. Then the load
   * balancer is written again as it is, and `OutdatedError` makes the caller try again.
   */
  async #detachPublicIP(id: string, observed: Observed, refusal: ArmError): Promise<never> {
    const { loadBalancers, publicIPs } = this.#options.network;
    const shown = await publicIPs.read(id);
    const user = shown?.ipConfiguration?.id ?? shown?.natGateway?.id;
    const seen = observed.loadBalancers.find((one) => startsWithName(user ?? "", `${one.id}/`));
    const owner = seen?.id;
    if (owner === undefined)
      throw user === undefined ? new OutdatedError(refusal.message, { cause: refusal }) : refusal;
    // Writes since the observation have changed it, or deleted it.
    const current = (await loadBalancers.all(placeOf(owner).group)).find((one) => sameId(one.id, owner));
    const uses = (one: LoadBalancer | undefined): boolean =>
      one?.frontendIPConfigurations?.some(
        (frontend) => sameId(frontend.id, user) && sameId(frontend.publicIPAddress?.id, id),
      ) ?? false;
    if (uses(current))
      throw uses(seen) ? refusal : new OutdatedError(`${user} was not seen when ${id} was to be deleted`);
    if (current !== undefined) await this.#repeat(owner, current, observed);
    throw new OutdatedError(`${id} was still attached to ${user}, which does not use it`);
  }

  #repeat(id: string, current: LoadBalancer, observed: Observed): Promise<void> {
    const repetition =
      this.#repeated.get(id) ?? this.#putLoadBalancer(id, current, observed).finally(() => this.#repeated.delete(id));
    this.#repeated.set(id, repetition);
    return repetition;
  }

  /**
   * A write of a load balancer sets `ipConfiguration` of the public IPs that it refers to, clears that of the others,
   * and changes their etags. The same is done to the cache, without the etags. Public IPs of the same round are in the
   * cache and not yet observed.
   */
  async #attach(
    id: string,
    frontends: NonNullable<LoadBalancer["frontendIPConfigurations"]>,
    observed: Observed,
  ): Promise<void> {
    const { publicIPs } = this.#options.network;
    const frontendOf = new Map(
      frontends.flatMap((frontend) => {
        const publicIP = frontend.publicIPAddress?.id;
        return publicIP === undefined ? [] : [[publicIP.toLowerCase(), frontend.id ?? ""] as const];
      }),
    );
    const prefix = `${id}/`.toLowerCase();
    const groups = [...frontendOf.keys(), ...observed.publicIPs.map((one) => one.id ?? "")].map(
      (one) => placeOf(one).group,
    );
    const known = await Promise.all(
      [...new Set(groups.map((one) => one.toLowerCase()))].map((one) => this.#knownPublicIPs(one)),
    );
    for (const publicIP of known.flat()) {
      const before = publicIP.ipConfiguration?.id;
      const after = frontendOf.get((publicIP.id ?? "").toLowerCase());
      const isOfOther = before !== undefined && !before.toLowerCase().startsWith(prefix);
      if (sameName(before ?? "", after ?? "") || (after === undefined && isOfOther)) continue;
      publicIPs.store(attached(publicIP, after));
    }
  }

  /** A group that cannot be read now is listed again when it is needed; the write has succeeded all the same. */
  async #knownPublicIPs(group: string): Promise<readonly PublicIPAddress[]> {
    const { publicIPs } = this.#options.network;
    try {
      return await publicIPs.all(group);
    } catch {
      publicIPs.forget();
      return [];
    }
  }

  /** Begins the reads of writes that have to wait for others. */
  prepare(writes: readonly Write[], observed: Observed): void {
    const { network, members } = this.#options;
    for (const write of writes)
      if (write.kind === "put-load-balancer") network.loadBalancers.prepare(write.id, write.body);
    const ofMembers = writes.filter(isMembersWrite);
    if (ofMembers.length > 0) void members.prepare(ofMembers, observed.loadBalancers, observed.nodes);
  }

  /** Membership of a stage. Never rejects. */
  async members(writes: readonly MembersWrite[], observed: Observed): Promise<readonly WriteOutcome[]> {
    if (writes.length === 0) return [];
    const { members } = this.#options;
    const refused = await refusedReleases(writes, observed, this.#options);
    const allowed = writes.filter((write) => !refused.has(write));
    const { writes: requests, failed, late } = await members.apply(allowed, observed.loadBalancers, observed.nodes);
    const first = allowed.find((write) => !failed.has(write));
    return writes.map((write): WriteOutcome => {
      const refusal = refused.get(write);
      if (refusal !== undefined) return refusal;
      if (failed.has(write)) return { kind: "failed", write, error: failed.get(write) };
      const ends = late.get(write);
      const done = { write, requests, ...(write !== first && { shared: true as const }) };
      return ends === undefined ? { kind: "written", ...done } : { kind: "unfinished", ...done, ends };
    });
  }
}

export const isResourceWrite = (write: Write): write is ResourceWrite => !isMembersWrite(write);

function attached(publicIP: Readonly<PublicIPAddress>, frontendId: string | undefined): PublicIPAddress {
  const { etag: _outdated, ipConfiguration: _before, ...rest } = publicIP;
  return frontendId === undefined ? rest : { ...rest, ipConfiguration: { id: frontendId } };
}
