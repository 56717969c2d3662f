import { describe, expect, test } from "bun:test";

import {
  allOf,
  annotationsChanged,
  anyOf,
  defineController,
  filtered,
  generationChanged,
  indexBy,
  type InformerHandler,
  kinds,
  labelsChanged,
  type Node,
  objectsWhere,
  type Predicate,
} from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { TestCluster } from "../kit/harness.ts";

const node = (generation: number, labels: Record<string, string> = {}, deleted = false): Node => ({
  metadata: {
    name: "n",
    generation,
    labels,
    annotations: labels,
    ...(deleted && { deletionTimestamp: "2026-01-01T00:00:00Z" }),
  },
});

/** The changes that reach a handler behind the predicates. */
function passing(...predicates: readonly Predicate<Node>[]): readonly string[] {
  const seen: string[] = [];
  const handler: InformerHandler<Node> = {
    added: () => void seen.push("added"),
    updated: (before, after) => void seen.push(`updated ${before.metadata?.generation}-${after.metadata?.generation}`),
    deleted: () => void seen.push("deleted"),
  };
  const behind = filtered(handler, ...predicates);
  behind.added?.(node(1));
  behind.updated?.(node(1), node(1));
  behind.updated?.(node(1), node(2));
  behind.updated?.(node(3), node(3, { a: "1" }));
  behind.updated?.(node(4, { a: "1" }), node(4, { a: "2" }));
  behind.updated?.(node(5), node(5, {}, true));
  behind.deleted?.(node(6));
  return seen;
}

const [always, never] = [objectsWhere<Node>(() => true), objectsWhere<Node>(() => false)];

describe("a predicate", () => {
  test.each<readonly [string, readonly Predicate<Node>[], readonly string[]]>([
    [
      "nothing lets all pass",
      [],
      ["added", "updated 1-1", "updated 1-2", "updated 3-3", "updated 4-4", "updated 5-5", "deleted"],
    ],
    ["the generation: spec and deletion", [generationChanged], ["added", "updated 1-2", "updated 5-5", "deleted"]],
    ["labels", [labelsChanged], ["added", "updated 3-3", "updated 4-4", "deleted"]],
    ["annotations", [annotationsChanged], ["added", "updated 3-3", "updated 4-4", "deleted"]],
    [
      "either of two",
      [anyOf<Node>(generationChanged, labelsChanged)],
      ["added", "updated 1-2", "updated 3-3", "updated 4-4", "updated 5-5", "deleted"],
    ],
    ["both of two", [allOf<Node>(generationChanged, labelsChanged)], ["added", "deleted"]],
    ["several in a row", [generationChanged, labelsChanged], ["added", "deleted"]],
    [
      "objects that count",
      [always],
      ["added", "updated 1-1", "updated 1-2", "updated 3-3", "updated 4-4", "updated 5-5", "deleted"],
    ],
    ["objects that do not", [never], []],
    [
      "objects with a label, before or after",
      [objectsWhere<Node>(({ metadata }) => metadata?.labels?.["a"] === "1")],
      ["updated 3-3", "updated 4-4"],
    ],
  ])("a predicate on %s passes just those changes", (_name, predicates, expected) => {
    expect(passing(...predicates)).toEqual(expected);
  });
});

test("an index shows the store as it is: added, moved and deleted objects", async () => {
  await using cluster = await TestCluster.start();
  const plugin = defineController({
    name: "indexing-controller",
    construct: () => () => ({ run: () => Promise.resolve() }),
  });
  const generation = cluster.generation(plugin);
  const informer = generation.context.informers.of(kinds.Pod);
  const byNode = indexBy(informer, ({ spec }) => [spec?.nodeName ?? ""]);
  const pod = (name: string, nodeName: string) => ({
    metadata: { name, namespace: "default" },
    spec: { nodeName, containers: [{ name: "c", image: "i" }] },
  });
  const on = (name: string): readonly string[] =>
    byNode
      .get(name)
      .map(({ metadata }) => metadata?.name ?? "")
      .toSorted();
  for (const [name, at] of [
    ["a", "n1"],
    ["b", "n1"],
    ["c", "n2"],
  ] as const)
    cluster.api.create(kinds.Pod, pod(name, at));
  await generation.synced();
  expect([on("n1"), on("n2"), on("n3")]).toEqual([["a", "b"], ["c"], []]);
  expect(byNode.get("n1")).toBe(byNode.get("n1"));
  cluster.api.delete(kinds.Pod, { name: "a", namespace: "default" });
  cluster.api.create(kinds.Pod, pod("d", "n3"));
  await eventually("the index follows", () => on("n1").join() === "b" && on("n3").join() === "d");
});
