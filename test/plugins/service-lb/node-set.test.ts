import { describe, expect, test } from "bun:test";

import type { Node } from "cloud-controller-host/sdk";
import * as fc from "fast-check";

import { currentNodes, nodeSetOf, sameMembers } from "../../../plugins/service-lb/node-set.ts";
import { aNode, excluded } from "./objects.ts";

const seed = 20_260_102;

const anyNode = fc
  .record({ name: fc.constantFrom("a", "b", "c", "d"), id: fc.constantFrom(undefined, "x", "y"), out: fc.boolean() })
  .map(({ name, id, out }) =>
    aNode(name, { ...(id === undefined ? {} : { providerID: id }), ...(out ? { labels: excluded() } : {}) }),
  );
const anyNodes = fc.uniqueArray(anyNode, { selector: (node) => node.metadata?.name });

/** What the cloud would be told, written down plainly. */
const told = (nodes: readonly Node[]): string =>
  nodes
    .filter((node) => node.metadata?.labels === undefined)
    .map((node) => `${node.metadata?.name}=${node.spec?.providerID ?? ""}`)
    .toSorted()
    .join();

describe(`two sets of nodes (seed ${seed})`, () => {
  test("are the same exactly when the cloud would be told the same", () => {
    fc.assert(
      fc.property(anyNodes, anyNodes, (left, right) => {
        const same = sameMembers(nodeSetOf(left).members, nodeSetOf(right).members);
        expect(same).toBe(told(left) === told(right));
      }),
      { seed, numRuns: 2000 },
    );
  });

  test("are the same in whatever order they are listed", () => {
    fc.assert(
      fc.property(anyNodes, (nodes) => sameMembers(nodeSetOf(nodes).members, nodeSetOf(nodes.toReversed()).members)),
      { seed },
    );
  });
});

test("the current nodes are read again only after one has changed", () => {
  let stored = [aNode("a")];
  let reads = 0;
  const nodes = currentNodes({
    get: () => undefined,
    size: 1,
    list() {
      reads++;
      return stored;
    },
  });
  const first = nodes.get();
  expect(nodes.get()).toBe(first);
  expect(reads).toBe(1);
  stored = [aNode("a"), aNode("b")];
  nodes.changed();
  expect([...nodes.get().members.keys()]).toEqual(["a", "b"]);
});
