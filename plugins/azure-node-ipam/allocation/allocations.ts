import { CidrSet } from "../cidrset/cidr-set.ts";
import { type Cidr, overlap } from "../cidrset/cidr.ts";
import { Pool } from "../cidrset/pool.ts";
import type { IpamMetrics } from "../metrics.ts";

/** What is kept for one node, by its name. A claim is never changed: another one takes its place. */
export interface Claim {
  /** UID of the node that it was made for; a node made anew under the same name has another one. */
  readonly uid: string;
  /** What the node was seen to have. */
  readonly held: readonly Cidr[];
  /** What the node may have, as far as is known: only an answer that was read afresh may free it. */
  readonly unsure: readonly Cidr[];
}

/** Two CIDRs that share addresses. */
export interface Overlap {
  readonly cidr: Cidr;
  readonly other: Cidr;
  /** The node that has `other`, or undefined when it is a service range. */
  readonly node: string | undefined;
}

interface OccupancyOptions {
  readonly clusters: readonly Cidr[];
  /** Prefix lengths of the blocks at first, one for each cluster CIDR. */
  readonly masks: readonly number[];
  /** Ranges that no node is given anything of. */
  readonly services: readonly Cidr[];
  readonly metrics: IpamMetrics;
  /** Told when blocks have become free, and how many. */
  readonly freed?: (blocks: number) => void;
}

/**
 * Who has which block. Every change is one step without a pause, so that no two nodes are ever offered one block. A
 * CIDR counts in every cluster CIDR that it touches, whatever its place in the node's list.
 */
export class Occupancy {
  readonly #pools: readonly Pool[];
  readonly #services: readonly Cidr[];
  readonly #claims = new Map<string, Claim>();
  readonly #freed: (blocks: number) => void;

  constructor({ clusters, masks, services, metrics, freed = () => undefined }: OccupancyOptions) {
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
   * Takes one CIDR of each cluster CIDR for a node that has none: of the given prefix lengths, for which the blocks are
   * cut smaller where need be, or a block of each. It takes all or nothing: undefined when there is no room.
   */
  offer(node: string, uid: string, prefixes?: readonly number[]): readonly Cidr[] | undefined {
    if (prefixes !== undefined) for (const [index, pool] of this.#pools.entries()) pool.refine(prefixes[index] ?? 0);
    const found = this.#pools.flatMap((pool, index) => {
      const room = pool.find(prefixes?.[index]);
      return room === undefined ? [] : [{ pool, room, prefix: prefixes?.[index] }];
    });
    if (found.length < this.#pools.length) return undefined;
    const cidrs = found.map(({ room }) => room.cidr);
    this.release(node);
    this.#claims.set(node, { uid, held: [], unsure: cidrs });
    for (const { pool, room, prefix } of found) pool.take(room, prefix);
    return cidrs;
  }

  /** Keeps for a node what it was seen to have, in the place of whatever was kept for it before. */
  settle(node: string, uid: string, held: readonly Cidr[]): readonly Overlap[] {
    return this.#replace(node, { uid, held, unsure: [] });
  }

  /** Keeps what a node was seen to have, and all that was kept for it before as well. */
  add(node: string, uid: string, held: readonly Cidr[]): readonly Overlap[] {
    const before = this.#claims.get(node);
    return this.#replace(node, { uid, held, unsure: [...(before?.held ?? []), ...(before?.unsure ?? [])] });
  }

  /** Keeps nothing for a node any more. */
  release(node: string): void {
    const before = this.#claims.get(node);
    if (before === undefined) return;
    this.#claims.delete(node);
    this.#unmark(before);
  }

  #replace(node: string, claim: Claim): readonly Overlap[] {
    const before = this.#claims.get(node);
    this.#claims.set(node, claim);
    if (before !== undefined && blocksOf(before) === blocksOf(claim)) return [];
    const shared = this.#mark([...claim.held, ...claim.unsure]);
    if (before !== undefined) this.#unmark(before);
    return shared ? claim.held.flatMap((cidr) => this.#overlapsWith(node, cidr)) : [];
  }

  #overlapsWith(node: string, cidr: Cidr): readonly Overlap[] {
    const services = this.#services.filter((other) => overlap(cidr, other));
    const nodes = [...this.#claims].flatMap(([name, { held, unsure }]) =>
      name === node
        ? []
        : [...held, ...unsure].filter((other) => overlap(cidr, other)).map((other) => ({ name, other })),
    );
    return [
      ...services.map((other) => ({ cidr, other, node: undefined })),
      ...nodes.map(({ name, other }) => ({ cidr, other, node: name })),
    ];
  }

  /** True when a block was claimed already. */
  #mark(cidrs: readonly Cidr[]): boolean {
    let shared = false;
    for (const cidr of cidrs) for (const pool of this.#pools) shared = pool.claim(cidr) || shared;
    return shared;
  }

  #unmark({ held, unsure }: Claim): void {
    let freed = 0;
    for (const cidr of [...held, ...unsure]) for (const pool of this.#pools) freed += pool.disclaim(cidr);
    if (freed > 0) this.#freed(freed);
  }

  *#claimed(): Iterable<Cidr> {
    yield* this.#services;
    for (const { held, unsure } of this.#claims.values()) {
      yield* held;
      yield* unsure;
    }
  }
}

const blocksOf = ({ held, unsure }: Claim): string => [...held, ...unsure].map(({ text }) => text).join(" ");
