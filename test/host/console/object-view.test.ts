import { expect, test } from "bun:test";

import type { KindRef, KubeObject, Node } from "cloud-controller-host/sdk";

import { ObjectView } from "../../../host/console/object-view.ts";
import { cloudWrite, idleSources } from "./idle-status.ts";

const node: Node = { apiVersion: "v1", kind: "Node", metadata: { name: "vm-0" } };

test("the view of an object has its latest 100 writes, the latest first, and none of another", async () => {
  const records = Array.from({ length: 210 }, (_, index) =>
    cloudWrite({ resource: `lb-${index}`, causes: [`Node vm-${index % 2}`] }),
  );
  const isNode = <T extends KubeObject>(kind: KindRef<T>, object: KubeObject): object is T => object.kind === kind.kind;
  const stored = <T extends KubeObject>(kind: KindRef<T>) => {
    const list = isNode(kind, node) ? [node] : [];
    return { get: (key: string) => list.find(({ metadata }) => metadata?.name === key), list: () => list, size: 1 };
  };
  const view = new ObjectView({
    ...idleSources,
    informers: { ...idleSources.informers, stored },
    writes: { records, count: records.length },
  });
  const shown = await view.of(["nodes", "vm-0"]);
  const latest = Array.from({ length: 100 }, (_, index) => `lb-${208 - 2 * index}`);
  expect(shown?.writes.map(({ resource }) => resource)).toEqual(latest);
  expect(await view.of(["nodes", "vm-9"])).toBeUndefined();
});
