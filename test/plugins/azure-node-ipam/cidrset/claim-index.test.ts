import { expect, test } from "bun:test";

import { type CIDR, cidrsOverlap, parseCIDR } from "cloud-controller-host/sdk";
import * as fc from "fast-check";

import { ClaimIndex } from "../../../../plugins/azure-node-ipam/cidrset/claim-index.ts";
import { openAllocations } from "../open-allocations.ts";

const seed = 20_261_128;

/** Of few addresses, so that many contain each other. */
const cidr = fc
  .oneof(
    fc.tuple(fc.nat(255), fc.integer({ min: 20, max: 32 })).map(([octet, prefix]) => `10.0.0.${octet}/${prefix}`),
    fc
      .tuple(fc.nat(255), fc.integer({ min: 110, max: 128 }))
      .map(([group, prefix]) => `fd00::${group.toString(16)}/${prefix}`),
  )
  .map((text) => parseCIDR(text));
const step = fc.record({ node: fc.constantFrom("a", "b", "c"), cidr, isRemoval: fc.boolean() });

const lines = (claims: readonly { readonly node: string; readonly cidr: CIDR }[]): readonly string[] =>
  claims.map((one) => `${one.node} ${one.cidr.text}`).toSorted();

test(`the claims that overlap with a CIDR are those that a look at each finds (seed ${seed})`, () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: "max" }), cidr, (steps, wanted) => {
      const index = new ClaimIndex();
      const claims: { readonly node: string; readonly cidr: CIDR }[] = [];
      for (const { isRemoval, ...claim } of steps) {
        // Removals of what is claimed, and of what is not.
        const known = isRemoval ? claims.findIndex(({ node }) => node === claim.node) : -1;
        const [removed = claim] = known < 0 ? [] : claims.splice(known, 1);
        if (isRemoval) index.remove(removed.node, removed.cidr);
        else claims.push(claim);
        if (!isRemoval) index.add(claim.node, claim.cidr);
        for (const one of [wanted, claim.cidr])
          expect(lines(index.overlapping(one))).toEqual(lines(claims.filter((other) => cidrsOverlap(one, other.cidr))));
      }
    }),
    { seed, numRuns: 200 },
  );
});

test("what 15,000 nodes claim in blocks that they share is recorded, and released, within seconds", () => {
  const { allocations, observe } = openAllocations({ clusters: ["10.0.0.0/8"], masks: [24] });
  const began = performance.now();
  // Four to a block, as after a restart with larger blocks.
  for (let index = 0; index < 15_000; index++)
    observe(`node-${index}`, `10.${index >> 10}.${(index >> 2) & 255}.${(index & 3) * 64}/26`);
  expect(allocations.sets[0]?.used).toBe(3_750);
  for (let index = 0; index < 15_000; index++) allocations.release(`node-${index}`);
  expect(allocations.sets[0]?.used).toBe(0);
  expect(performance.now() - began).toBeLessThan(10_000);
}, 120_000);
