import { describe, expect, test } from "bun:test";

import { kinds, type KubeClient, labels } from "cloud-controller-host/sdk";
import { eventually, memoryCloud } from "cloud-controller-host/sdk/testing";

import { reconcileLabels } from "../../../plugins/cloud-node/labels.ts";
import cloudNode from "../../../plugins/cloud-node/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";

type Labels = Readonly<Record<string, string>>;

const beta: Labels = {
  [labels.zoneBeta]: "foo",
  [labels.regionBeta]: "bar",
  [labels.instanceTypeBeta]: "the-best-type",
};
const stable: Labels = { [labels.zone]: "foo", [labels.region]: "bar", [labels.instanceType]: "the-best-type" };
const wrong: Labels = { [labels.zone]: "wrongfoo", [labels.region]: "wrongbar", [labels.instanceType]: "worst" };

interface Row {
  readonly name: string;
  readonly before: Labels;
  /** The labels that one patch sets; undefined: no write. */
  readonly patched: Labels | undefined;
}

const rows: readonly Row[] = [
  { name: "requires reconcile", before: beta, patched: stable },
  { name: "doesn't require reconcile", before: { ...beta, ...stable }, patched: undefined },
  {
    name: "require reconcile -- secondary labels are different from primary",
    before: { ...beta, ...wrong },
    patched: stable,
  },
  { name: "a stable label without its beta counterpart is left alone", before: wrong, patched: undefined },
  {
    name: "only what differs is written",
    before: { ...beta, ...stable, [labels.zone]: "elsewhere" },
    patched: { [labels.zone]: "foo" },
  },
];

describe("stable and beta labels", () => {
  for (const { name, before, patched } of rows)
    test(name, async () => {
      await using cluster = await TestCluster.start();
      await cluster.admin.create(kinds.Node, { metadata: { name: "node0", labels: { mine: "too", ...before } } });
      await cluster.run(cloudNode, { cloud: memoryCloud().cloud });
      await eventually("the node has been looked at", () => cluster.worked("Nodes", patched === undefined ? 1 : 2));

      const node = await cluster.admin.get(kinds.Node, { name: "node0" });
      expect(node.metadata?.labels).toEqual({ mine: "too", ...before, ...patched });
      const expected = {
        method: "PATCH",
        path: "/api/v1/nodes/node0",
        contentType: "application/strategic-merge-patch+json",
        body: { metadata: { uid: node.metadata?.uid, labels: patched } },
      };
      expect(cluster.writes()).toMatchObject(patched === undefined ? [] : [expected]);
      expect(cluster.sent({ method: "GET" })).toHaveLength(patched === undefined ? 0 : 1);
    });
});

test("labels whose write the API server refuses are written again", async () => {
  await using cluster = await TestCluster.start();
  cluster.api.faults.add({ match: { verb: "patch", resource: "nodes" }, effect: { status: 403 }, times: 2 });
  await cluster.admin.create(kinds.Node, { metadata: { name: "node0", labels: beta } });
  await cluster.run(cloudNode, { cloud: memoryCloud().cloud });
  await eventually("they are written", () => cluster.writes().some(({ status }) => status === 200));
  expect(cluster.writes().map(({ status }) => status)).toEqual([403, 403, 200]);
});

test("labels that another writer has set since the watch showed the node are not written again", async () => {
  await using cluster = await TestCluster.start();
  const { client } = cluster.generation(cloudNode).context;
  const seen = await cluster.admin.create(kinds.Node, { metadata: { name: "node0", labels: beta } });
  await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", { metadata: { labels: stable } });
  await reconcileLabels({ client, signal: new AbortController().signal }, seen);
  expect(cluster.sent({ method: "GET" })).toHaveLength(1);
  expect(cluster.writes()).toEqual([]);
});

test("a node that was recreated under its name in another zone does not get the labels of the former one", async () => {
  await using cluster = await TestCluster.start();
  const { client } = cluster.generation(cloudNode).context;
  const create = (zones: Labels) => cluster.api.create(kinds.Node, { metadata: { name: "node0", labels: zones } });
  const former = create({ [labels.zone]: "1", [labels.zoneBeta]: "2" });
  const recreating: Pick<KubeClient, "get" | "patch"> = {
    async get(kind, name, options) {
      const read = await client.get(kind, name, options);
      cluster.api.delete(kinds.Node, { name: "node0" });
      create({ [labels.zone]: "3" });
      return read;
    },
    patch: (...call) => client.patch(...call),
  };
  await reconcileLabels({ client: recreating, signal: new AbortController().signal }, former);
  expect((await cluster.admin.get(kinds.Node, { name: "node0" })).metadata?.labels).toEqual({ [labels.zone]: "3" });
});

test("follows a change that the watch has shown, although another API server's cache has not seen it", async () => {
  await using cluster = await TestCluster.start();
  const { client } = cluster.generation(cloudNode).context;
  const former = cluster.api.create(kinds.Node, { metadata: { name: "node0", labels: { ...beta, ...stable } } });
  await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", {
    metadata: { labels: { [labels.zoneBeta]: "moon" } },
  });
  const lagging: Pick<KubeClient, "get" | "patch"> = {
    async get(kind, name, options) {
      const latest = await client.get(kind, name, options);
      return options?.read === "cached" ? { ...latest, metadata: former.metadata } : latest;
    },
    patch: (...call) => client.patch(...call),
  };
  const shown = await cluster.admin.get(kinds.Node, { name: "node0" });
  await reconcileLabels({ client: lagging, signal: new AbortController().signal }, shown);
  expect((await cluster.admin.get(kinds.Node, { name: "node0" })).metadata?.labels?.[labels.zone]).toBe("moon");
});

test("restores a stable label that was changed manually", async () => {
  await using cluster = await TestCluster.start();
  await cluster.admin.create(kinds.Node, { metadata: { name: "node0", labels: { ...beta, ...stable } } });
  await cluster.run(cloudNode, { cloud: memoryCloud().cloud });
  await eventually("the node has been looked at", () => cluster.worked("Nodes", 1));
  expect(cluster.writes()).toEqual([]);

  await cluster.admin.patch(kinds.Node, { name: "node0" }, "merge", {
    metadata: { labels: { [labels.zone]: "moon" } },
  });
  await eventually("the label is back", async () => {
    const node = await cluster.admin.get(kinds.Node, { name: "node0" });
    return node.metadata?.labels?.[labels.zone] === "foo";
  });
});
