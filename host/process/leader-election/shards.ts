import {
  annotationOf,
  type Clock,
  kinds,
  type KubeClient,
  labelSelectorsOverlap,
  type Lease,
  type Logger,
} from "cloud-controller-host/sdk";

import { announcedBy, announcementKey, type Served } from "./announcement.ts";
import { isReleased, type Observation, observationOf, recordOf, sameRecord } from "./record.ts";

/** Another shard's Services and this one's: none in common, some, or not known. */
export type Relation = "self" | "disjoint" | "overlaps" | "undecided";

/** One shard of the cluster, by its Lease. */
export interface ShardStatus {
  readonly lease: string;
  /** Identity of its leader; empty for none. */
  readonly leader: string;
  /** Since when it leads (RFC 3339). */
  readonly since: string;
  /** The Services that it serves, or served last; absent if its Lease does not show them. */
  readonly serves?: Served;
  /** As this process sees it; `disjoint` for a shard without a leader. */
  readonly relation: Relation;
}

export interface ShardsOptions {
  readonly client: Pick<KubeClient, "list">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly namespace: string;
  /** The Lease of this process. */
  readonly lease: string;
  /** The Lease of the deployment without `--shard`; it counts as a shard whichever program holds it. */
  readonly mainLease: string;
  readonly served: Served;
  /** Limit of one look at the Leases. */
  readonly limitMs: number;
}

/**
 * The shards of the cluster, by the Leases of one namespace. A Lease counts as held until it has not changed for its
 * duration by the local clock, as in an election: its times are never compared with local time.
 */
export class Shards {
  readonly #options: ShardsOptions;
  readonly #seen = new Map<string, Observation>();
  #reported = "";

  constructor(options: ShardsOptions) {
    this.#options = options;
  }

  /** The Services that this process serves. */
  get own(): Served {
    return this.#options.served;
  }

  /** The shards found by the last look. */
  get known(): readonly ShardStatus[] {
    return [...this.#seen.values()]
      .map((seen) => this.#statusOf(seen))
      .toSorted((a, b) => (a.lease < b.lease ? -1 : 1));
  }

  /** Reads the Leases, whatever caches hold. Rejects when they cannot be read. */
  async look(): Promise<readonly ShardStatus[]> {
    const { client, clock, namespace, limitMs } = this.#options;
    const leases = await client.list(kinds.Lease, { namespace, signal: AbortSignal.timeout(limitMs) });
    const nowMs = clock.monotonic();
    const listed = new Set<string>();
    for (const lease of leases) {
      const { name = "" } = lease.metadata ?? {};
      if (name !== this.#options.mainLease && annotationOf(lease, announcementKey) === undefined) continue;
      listed.add(name);
      const before = this.#seen.get(name);
      const isSame = before !== undefined && sameRecord(before.record, recordOf(lease));
      this.#seen.set(name, isSame ? { ...before, lease } : observationOf(lease, nowMs, before));
    }
    // The holder of a Lease that was deleted leads until it notices.
    for (const [name, seen] of this.#seen) if (!listed.has(name) && !this.#isHeld(seen)) this.#seen.delete(name);
    return this.known;
  }

  /** True while another process may serve Services under the Lease. Rejects when Leases cannot be read. */
  async isAlive(lease: string): Promise<boolean> {
    await this.look();
    const seen = this.#seen.get(lease);
    return seen !== undefined && this.#isHeld(seen) && announcedBy(seen.lease)?.services !== false;
  }

  /**
   * True unless a shard that leads has Services in common with this one. Each shard writes its announcement before its
   * last look, so of two shards the one that announces last sees the other. Never rejects.
   */
  async mayLead(): Promise<boolean> {
    const { log, lease } = this.#options;
    try {
      const shards = await this.look();
      const overlapping = shards.filter(({ relation }) => relation === "overlaps");
      const undecided = shards.filter(({ relation }) => relation === "undecided");
      const found = JSON.stringify([overlapping, undecided].map((list) => list.map((one) => [one.lease, one.serves])));
      const isNew = found !== this.#reported;
      this.#reported = found;
      if (isNew && overlapping.length > 0)
        log.error("Not leading: another shard serves some of the same Services", {
          lease,
          shards: overlapping.map(described),
        });
      if (isNew && undecided.length > 0)
        log.warn("Unable to determine whether another shard serves some of the same Services", {
          lease,
          shards: undecided.map(described),
        });
      return overlapping.length === 0;
    } catch (error) {
      log.error("Not leading: failed to read the Leases of other shards", { lease, error });
      return false;
    }
  }

  #isHeld({ record, atMs, holderSeconds }: Observation): boolean {
    const endsMs = atMs + Math.max(record.leaseDurationSeconds, holderSeconds) * 1000;
    return !isReleased(record) && this.#options.clock.monotonic() <= endsMs;
  }

  #statusOf(seen: Observation): ShardStatus {
    const { lease, record } = seen;
    const serves = announcedBy(lease);
    const isHeld = this.#isHeld(seen);
    return {
      lease: lease.metadata?.name ?? "",
      leader: isHeld ? record.holderIdentity : "",
      since: isHeld ? record.acquireTime : "",
      ...(serves && { serves }),
      relation: this.#relationOf(lease, serves, isHeld),
    };
  }

  #relationOf(lease: Lease, serves: Served | undefined, isHeld: boolean): Relation {
    if (lease.metadata?.name === this.#options.lease) return "self";
    if (!isHeld) return "disjoint";
    return serves === undefined ? "undecided" : relationBetween(this.#options.served, serves);
  }
}

/** A Service has one class, or none. */
export function relationBetween(one: Served, other: Served): "disjoint" | "overlaps" {
  const isDisjoint =
    !one.services ||
    !other.services ||
    one.loadBalancerClass !== other.loadBalancerClass ||
    !labelSelectorsOverlap(one.serviceSelector, other.serviceSelector);
  return isDisjoint ? "disjoint" : "overlaps";
}

/** A shard in one line. */
const described = ({ lease, leader, serves }: ShardStatus): string =>
  serves === undefined
    ? `${lease}, held by ${leader}, which does not show what it serves`
    : `${lease}, held by ${leader}: class ${JSON.stringify(serves.loadBalancerClass)}, selector ${JSON.stringify(serves.serviceSelector)}`;
