import { expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";

import { WrittenObjects } from "../../../host/plan/written-objects.ts";

test("an object that a plan has written is the same object at every read", () => {
  const written = new WrittenObjects();
  written.set(kinds.Node, undefined, { metadata: { name: "vm-0" } });
  const read = written.get(kinds.Node, "vm-0");
  expect(read).toMatchObject({ metadata: { name: "vm-0", resourceVersion: "01" } });
  expect([written.get(kinds.Node, "vm-0") === read, written.all(kinds.Node)[0] === read]).toEqual([true, true]);
});
