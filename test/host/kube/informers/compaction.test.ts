import { describe, expect, test } from "bun:test";

import { kinds, type Node } from "cloud-controller-host/sdk";
import * as fc from "fast-check";

import { Compactor } from "../../../../host/kube/informers/compaction.ts";
import { realNode } from "../../../kit/real-node.ts";

/** As from the API server: no value is shared yet. */
const parsed = (node: Node): Node => JSON.parse(JSON.stringify(node));

const sized = (name: string, cpu: string): Node => {
  const node = parsed(realNode(name));
  return { ...node, status: { ...node.status, capacity: { ...node.status?.capacity, cpu } } };
};

function compacted(compactor: Compactor, node: Node): Node {
  compactor.compact(node);
  return node;
}

describe("stored nodes", () => {
  test("share equal values, and no others", () => {
    const compactor = new Compactor(kinds.Node);
    const [one, same, other] = [sized("a", "8"), sized("b", "8"), sized("c", "16")].map((node) =>
      compacted(compactor, node),
    );
    for (const field of ["capacity", "allocatable", "daemonEndpoints"] as const) {
      expect(one?.status?.[field]).toBeDefined();
      expect(same?.status?.[field], field).toBe(one?.status?.[field]);
    }
    expect(same?.spec?.taints).toBe(one?.spec?.taints);
    expect(other?.status?.capacity).not.toBe(one?.status?.capacity);
    expect(other?.status?.capacity?.["cpu"]).toBe("16");
    expect(other?.status?.allocatable).toBe(one?.status?.allocatable);
  });

  test("cannot be changed where they are shared", () => {
    const compactor = new Compactor(kinds.Node);
    const { spec, status } = compacted(compactor, parsed(realNode("a")));
    expect(() => Object.assign(status?.capacity ?? {}, { cpu: "1" })).toThrow(TypeError);
    expect(() => Object.assign(spec?.taints?.[0] ?? {}, { value: "false" })).toThrow(TypeError);
  });

  test("keep their content, whatever it is, but for dropped fields", () => {
    const compactor = new Compactor(kinds.Node);
    const text = fc.constantFrom("1", "2", "kubelet has sufficient memory available", "");
    const quantities = fc.dictionary(fc.constantFrom("cpu", "memory", "pods", "__proto__"), text);
    const json = fc.jsonValue({ maxDepth: 2 });
    const document = fc.record(
      {
        spec: fc.record({ taints: fc.oneof(fc.array(quantities, { maxLength: 2 }), json), providerID: text }),
        status: fc.oneof(
          json,
          fc.record(
            {
              capacity: fc.oneof(quantities, json),
              allocatable: quantities,
              daemonEndpoints: json,
              conditions: fc.oneof(
                json,
                fc.array(fc.oneof(json, fc.record({ reason: text, message: fc.oneof(text, json) }))),
              ),
              images: json,
            },
            { requiredKeys: [] },
          ),
        ),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(document, (content) => {
        const written = JSON.stringify({ metadata: { name: "n" }, ...content });
        const [node, expected] = [JSON.parse(written), JSON.parse(written)];
        compactor.compact(node);
        if (expected.status instanceof Object) delete expected.status.images;
        expect(JSON.stringify(node)).toBe(JSON.stringify(expected));
      }),
      { numRuns: 500 },
    );
  });

  test("share again after a table was full, and a full table releases former values", () => {
    const compactor = new Compactor(kinds.Node);
    const capacityOf = (cpu: number): unknown => compacted(compactor, sized("n", String(cpu))).status?.capacity;
    const first = capacityOf(0);
    expect(capacityOf(0)).toBe(first);
    for (let cpu = 1; cpu <= 1000; cpu++) capacityOf(cpu);
    const again = capacityOf(0);
    expect(again).not.toBe(first);
    expect(again).toEqual(first);
    expect(capacityOf(0)).toBe(again);
  });

  test("keep long values for themselves", () => {
    const compactor = new Compactor(kinds.Node);
    const [one, other] = ["a", "b"].map((name) => compacted(compactor, sized(name, "8".repeat(2000))));
    expect(other?.status?.capacity).toEqual(one?.status?.capacity ?? {});
    expect(other?.status?.capacity).not.toBe(one?.status?.capacity);
  });
});

test("objects of other kinds lose managedFields alone", () => {
  const compactor = new Compactor(kinds.Service);
  const service = { metadata: { name: "s", managedFields: [] }, status: { images: [], capacity: { cpu: "1" } } };
  compactor.compact(service);
  expect(JSON.parse(JSON.stringify(service))).toEqual({
    metadata: { name: "s" },
    status: { images: [], capacity: { cpu: "1" } },
  });
  expect(Object.isFrozen(service.status.capacity)).toBe(false);
});
