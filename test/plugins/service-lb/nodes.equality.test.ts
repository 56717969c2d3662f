import { describe, expect, test } from "bun:test";

import type { Node } from "cloud-controller-host/sdk";
import * as fc from "fast-check";

import { ObjectStore } from "../../../host/kube/informers/store.ts";
import { currentNodes, nodeSetOf, sameMembers } from "../../../plugins/service-lb/nodes.ts";
import { aNode, excluded } from "./objects.ts";

const seed = 20_260_102;

const ips = fc.constantFrom([], ["10.0.0.4"], ["10.0.0.4", "fd00::4"]);
const anyNode = fc
  .record({
    name: fc.constantFrom("a", "b", "c", "d"),
    id: fc.constantFrom(undefined, "x", "y"),
    ips,
    out: fc.boolean(),
  })
  .map(({ name, id, ips: internalIPs, out }) =>
    aNode(name, {
      ...(id === undefined ? {} : { providerID: id }),
      internalIPs,
      ...(out ? { labels: excluded() } : {}),
    }),
  );
const anyNodes = fc.uniqueArray(anyNode, { selector: (node) => node.metadata?.name });

/** The arguments of the cloud's call, computed in the plainest way. */
const reported = (nodes: readonly Node[]): string =>
  nodes
    .filter((node) => node.metadata?.labels === undefined)
    .map(
      (node) =>
        `${node.metadata?.name}=${node.spec?.providerID ?? ""} ${(node.status?.addresses ?? []).map(({ address }) => address).join()}`,
    )
    .toSorted()
    .join();

describe(`node set equality (seed ${seed})`, () => {
  test("two sets are equal exactly when the cloud would receive the same nodes", () => {
    fc.assert(
      fc.property(anyNodes, anyNodes, (left, right) => {
        const same = sameMembers(nodeSetOf(left).members, nodeSetOf(right).members);
        expect(same).toBe(reported(left) === reported(right));
      }),
      { seed, numRuns: 2000 },
    );
  });

  test("the order of the list does not matter", () => {
    fc.assert(
      fc.property(anyNodes, (nodes) => sameMembers(nodeSetOf(nodes).members, nodeSetOf(nodes.toReversed()).members)),
      { seed },
    );
  });
});

test("the current nodes follow the store and keep one map instance while unchanged", () => {
  const store = new ObjectStore<Node>();
  const nodes = currentNodes(store);
  expect(nodes().nodes).toEqual([]);
  store.set(aNode("a"));
  const first = nodes();
  expect([...first.members.keys()]).toEqual(["a"]);
  expect(nodes()).toBe(first);
  const ready = aNode("a", { ready: "True" });
  store.set(ready);
  expect(nodes().nodes).toEqual([ready]);
  expect(nodes().members).toBe(first.members);
  store.set(aNode("b"));
  expect([...nodes().members.keys()]).toEqual(["a", "b"]);
});
