import { expect, test } from "bun:test";

import { type CIDR, parseCIDR } from "cloud-controller-host/sdk";
import * as fc from "fast-check";

import { cidrs, openAllocations } from "../open-allocations.ts";

const seed = 20_261_121;

const clusters = ["10.0.0.0/24", "2001:db8::/60"] as const;
const masks = [28, 64] as const;
const services = ["10.0.0.32/27", "2001:db8:0:3::/64"] as const;

/** A CIDR as numbers, both ends included: what the naive model reckons with. */
interface Stretch {
  readonly family: string;
  readonly first: bigint;
  readonly last: bigint;
}

function stretchOf({ family, bytes, prefix }: CIDR): Stretch {
  const first = bytes.reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  return { family, first, last: first + (1n << BigInt(bytes.length * 8 - prefix)) - 1n };
}
const meet = (one: Stretch, other: Stretch): boolean =>
  one.family === other.family && one.first <= other.last && other.first <= one.last;

const node = fc.constantFrom("a", "b", "c", "d", "e", "f", "g", "h");
const foreign = fc.oneof(
  fc.tuple(fc.nat(255), fc.integer({ min: 23, max: 31 })).map(([octet, prefix]) => `10.0.0.${octet}/${prefix}`),
  fc
    .tuple(fc.nat(15), fc.integer({ min: 59, max: 68 }))
    .map(([group, prefix]) => `2001:db8:0:${group.toString(16)}::/${prefix}`),
  fc.constant("192.168.0.0/24"),
);
const prefixes = fc.option(fc.tuple(fc.integer({ min: 25, max: 31 }), fc.integer({ min: 61, max: 68 })), {
  nil: undefined,
});
const step = fc.oneof(
  { weight: 5, arbitrary: fc.record({ do: fc.constant("offer" as const), node, prefixes }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("answer" as const), node, written: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("delete" as const), node }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("news" as const), node, cidr: foreign }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("fresh" as const), node, cidr: foreign }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("crash" as const), landed: fc.boolean() }) },
);

/** What nodes have at the API server, and what else may be theirs. Every operation is a few lines of naive lists. */
class Model {
  readonly written = new Map<string, readonly string[]>();
  readonly pending = new Map<string, readonly string[]>();

  claimed(): readonly Stretch[] {
    const texts = [...services, ...this.written.values(), ...this.pending.values()].flat();
    return texts.map((text) => stretchOf(parseCIDR(text)));
  }

  /** How many blocks of that size of the cluster are touched by anything. */
  used(cluster: string, mask: number): number {
    const claimed = this.claimed();
    return blocksOf(cluster, mask).filter((block) => claimed.some((other) => meet(block, other))).length;
  }

  hasRoom(cluster: string, prefix: number): boolean {
    return this.used(cluster, prefix) < blocksOf(cluster, prefix).length;
  }
}

function blocksOf(cluster: string, mask: number): readonly Stretch[] {
  const { family, first, last } = stretchOf(parseCIDR(cluster));
  const size = 1n << BigInt((family === "ipv4" ? 32 : 128) - mask);
  const blocks: Stretch[] = [];
  for (let start = first; start <= last; start += size) blocks.push({ family, first: start, last: start + size - 1n });
  return blocks;
}

test(`no CIDR is assigned twice and none leaks, in any order of events (seed ${seed})`, () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80, size: "max" }), (steps) => {
      const model = new Model();
      let opened = openAllocations({ clusters, masks, services });

      for (const action of steps) {
        const { allocations } = opened;
        if (action.do === "offer") {
          if (allocations.claimOf(action.node) !== undefined) continue;
          const before = model.claimed();
          const wanted = action.prefixes ?? allocations.sets.map(({ mask }) => mask);
          const offer = opened.allocate(action.node, action.prefixes);
          const room = clusters.every((cluster, index) => model.hasRoom(cluster, wanted[index] ?? 0));
          expect(offer !== undefined).toBe(room);
          if (offer === undefined) continue;
          const given = offer.map((text) => stretchOf(parseCIDR(text)));
          expect(offer.map((text) => parseCIDR(text).prefix)).toEqual([...wanted]);
          expect(given.filter((cidr) => before.some((other) => meet(cidr, other)))).toEqual([]);
          model.pending.set(action.node, offer);
        } else if (action.do === "answer") {
          const offer = model.pending.get(action.node);
          if (offer === undefined) continue;
          model.pending.delete(action.node);
          if (action.written) model.written.set(action.node, offer);
          else model.written.delete(action.node);
          if (action.written) opened.observe(action.node, ...offer);
          else allocations.release(action.node);
        } else if (action.do === "delete") {
          model.written.delete(action.node);
          model.pending.delete(action.node);
          allocations.release(action.node);
        } else if (action.do === "news") {
          const known = [...(model.written.get(action.node) ?? []), ...(model.pending.get(action.node) ?? [])];
          model.pending.set(action.node, known);
          model.written.set(action.node, [action.cidr]);
          allocations.add(action.node, "uid", cidrs(action.cidr));
        } else if (action.do === "fresh") {
          model.pending.delete(action.node);
          model.written.set(action.node, [action.cidr]);
          opened.observe(action.node, action.cidr);
        } else {
          // What was under way has arrived or not; no one remembers it, and the API server is read again.
          if (action.landed)
            for (const [name, offer] of model.pending) if (!model.written.has(name)) model.written.set(name, offer);
          model.pending.clear();
          opened = openAllocations({ clusters, masks, services });
          for (const [name, held] of model.written) opened.observe(name, ...held);
        }
        for (const [index, cluster] of clusters.entries()) {
          const set = opened.allocations.sets[index];
          expect(set?.used).toBe(model.used(cluster, set?.mask ?? 0));
        }
      }
    }),
    { seed, numRuns: 100 },
  );
});
