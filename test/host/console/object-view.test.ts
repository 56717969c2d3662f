import { expect, test } from "bun:test";

import type { KindRef, KubeObject, Node } from "cloud-controller-host/sdk";

import { ObjectView } from "../../../host/console/object-view.ts";
import { cloudWrite, idleSources } from "./idle-status.ts";

const node: Node = { apiVersion: "v1", kind: "Node", metadata: { name: "vm-0" } };

const isNode = <T extends KubeObject>(kind: KindRef<T>, object: KubeObject): object is T => object.kind === kind.kind;
const stored = <T extends KubeObject>(kind: KindRef<T>) => {
  const list = isNode(kind, node) ? [node] : [];
  return { get: (key: string) => list.find(({ metadata }) => metadata?.name === key), list: () => list, size: 1 };
};
const informers = { ...idleSources.informers, stored };

test("the view of a node has its error, which neither a condition nor an event of it has", async () => {
  const warning = (name: string) => ({
    source: "cloud-node-controller",
    kind: "NodesFail" as const,
    text: `Node ${name} fails`,
    subject: name,
  });
  const ownWarnings = () => [warning("vm-1"), warning("vm-0")];
  const lastError = async (sources: Partial<typeof idleSources>) => {
    const shown = await new ObjectView({ ...idleSources, informers, ...sources }).of(["nodes", "vm-0"]);
    return shown?.tree[0]?.facts?.filter(({ name }) => name === "last error");
  };
  expect(await lastError({ ownWarnings })).toEqual([{ name: "last error", value: "Node vm-0 fails" }]);
  expect(await lastError({})).toEqual([]);
});

test("the view of an object has its latest 100 writes, the latest first, and none of another", async () => {
  const records = Array.from({ length: 210 }, (_, index) =>
    cloudWrite({ resource: `lb-${index}`, causes: [`Node vm-${index % 2}`] }),
  );
  const view = new ObjectView({
    ...idleSources,
    informers,
    writes: { records, count: records.length },
  });
  const shown = await view.of(["nodes", "vm-0"]);
  const latest = Array.from({ length: 100 }, (_, index) => `lb-${208 - 2 * index}`);
  expect(shown?.writes.map(({ resource }) => resource)).toEqual(latest);
  expect(await view.of(["nodes", "vm-9"])).toBeUndefined();
});
