import { type CIDR, cidrsOverlap } from "cloud-controller-host/sdk";

import type { IpamMetrics } from "../metrics.ts";
import { CidrSet } from "./cidr-set.ts";
import { ClaimIndex } from "./claim-index.ts";
import { Pool } from "./pool.ts";

/** The CIDRs reserved for one node, by its name. Immutable: an update replaces the claim. */
export interface Claim {
  /** UID of the node; a node recreated under the same name has another one. */
  readonly uid: string;
  /** CIDRs that the node was observed to have. */
  readonly held: readonly CIDR[];
  /** CIDRs that the node may have: only a fresh read may free them. */
  readonly unsure: readonly CIDR[];
}

/** Two CIDRs that share addresses. */
export interface Overlap {
  readonly cidr: CIDR;
  readonly other: CIDR;
  /** The node that has `other`, or undefined when it is a service range. */
  readonly node: string | undefined;
}

interface AllocationsOptions {
  readonly clusters: readonly CIDR[];
  /** Initial prefix lengths of the blocks, one per cluster CIDR. */
  readonly masks: readonly number[];
  /** Ranges that are not allocated to nodes. */
  readonly services: readonly CIDR[];
  readonly metrics: IpamMetrics;
  /** Called when blocks have become free, with their number. */
  readonly freed?: (blocks: number) => void;
}

/**
 * The allocation of blocks to nodes. Every change is synchronous, so that a block is never allocated to two nodes. A
 * CIDR is counted in every cluster CIDR that it touches, whatever its place in the node's list.
 */
export class Allocations {
  readonly #pools: readonly Pool[];
  readonly #services: readonly CIDR[];
  readonly #claims = new Map<string, Claim>();
  readonly #index = new ClaimIndex();
  readonly #freed: (blocks: number) => void;

  constructor({ clusters, masks, services, metrics, freed = () => undefined }: AllocationsOptions) {
    this.#services = services;
    this.#freed = freed;
    this.#pools = clusters.map(
      (cluster, index) =>
        new Pool(new CidrSet(cluster, masks[index] ?? cluster.prefix), metrics(cluster.text), () => this.#claimed()),
    );
    for (const cidr of services) this.#mark([cidr]);
  }

  /** The blocks of each cluster CIDR as they are cut now. */
  get sets(): readonly CidrSet[] {
    return this.#pools.map(({ set }) => set);
  }

  get claims(): ReadonlyMap<string, Claim> {
    return this.#claims;
  }

  claimOf(node: string): Claim | undefined {
    return this.#claims.get(node);
  }

  /**
   * Allocates one CIDR of each cluster CIDR to a node without any: of the given prefix lengths, for which the blocks are
   * cut smaller where necessary, or a block of each. All or nothing: undefined if no CIDR is free.
   */
  allocate(node: string, uid: string, prefixes?: readonly number[]): readonly CIDR[] | undefined {
    if (prefixes !== undefined) for (const [index, pool] of this.#pools.entries()) pool.refine(prefixes[index] ?? 0);
    const found = this.#pools.flatMap((pool, index) => {
      const room = pool.find(prefixes?.[index]);
      return room === undefined ? [] : [{ pool, room }];
    });
    if (found.length < this.#pools.length) return undefined;
    const cidrs = found.map(({ room }) => room.cidr);
    this.release(node);
    this.#claims.set(node, { uid, held: [], unsure: cidrs });
    for (const cidr of cidrs) this.#index.add(node, cidr);
    for (const { pool, room } of found) pool.take(room);
    return cidrs;
  }

  /** Replaces the node's claim with what it was observed to have. */
  observe(node: string, uid: string, held: readonly CIDR[]): readonly Overlap[] {
    return this.#replace(node, { uid, held, unsure: [] });
  }

  /** Adds what a node was observed to have to its claim. */
  add(node: string, uid: string, held: readonly CIDR[]): readonly Overlap[] {
    const before = this.#claims.get(node);
    return this.#replace(node, { uid, held, unsure: [...(before?.held ?? []), ...(before?.unsure ?? [])] });
  }

  /** Removes the node's claim. */
  release(node: string): void {
    const before = this.#claims.get(node);
    if (before === undefined) return;
    for (const cidr of cidrsOf(before)) this.#index.remove(node, cidr);
    this.#claims.delete(node);
    this.#unmark(before);
  }

  #replace(node: string, claim: Claim): readonly Overlap[] {
    const before = this.#claims.get(node);
    this.#claims.set(node, claim);
    if (before !== undefined && blocksOf(before) === blocksOf(claim)) return [];
    for (const cidr of before === undefined ? [] : cidrsOf(before)) this.#index.remove(node, cidr);
    for (const cidr of cidrsOf(claim)) this.#index.add(node, cidr);
    const shared = this.#mark([...claim.held, ...claim.unsure]);
    if (before !== undefined) this.#unmark(before);
    return shared ? claim.held.flatMap((cidr) => this.#overlapsWith(node, cidr)) : [];
  }

  #overlapsWith(node: string, cidr: CIDR): readonly Overlap[] {
    const services = this.#services.filter((other) => cidrsOverlap(cidr, other));
    const nodes = this.#index.overlapping(cidr).filter((one) => one.node !== node);
    return [
      ...services.map((other) => ({ cidr, other, node: undefined })),
      ...nodes.map((one) => ({ cidr, other: one.cidr, node: one.node })),
    ];
  }

  /** True when a block was claimed already. */
  #mark(cidrs: readonly CIDR[]): boolean {
    let shared = false;
    for (const cidr of cidrs) for (const pool of this.#pools) shared = pool.claim(cidr) || shared;
    return shared;
  }

  #unmark(claim: Claim): void {
    let freed = 0;
    for (const cidr of cidrsOf(claim)) for (const pool of this.#pools) freed += pool.disclaim(cidr);
    if (freed > 0) this.#freed(freed);
  }

  *#claimed(): Iterable<CIDR> {
    yield* this.#services;
    for (const claim of this.#claims.values()) yield* cidrsOf(claim);
  }
}

const cidrsOf = ({ held, unsure }: Claim): readonly CIDR[] => [...held, ...unsure];

const blocksOf = (claim: Claim): string =>
  cidrsOf(claim)
    .map(({ text }) => text)
    .join(" ");
