import { expect, test } from "bun:test";

import { StarvedNodes } from "../../../../plugins/azure-node-ipam/allocation/starved.ts";

test("a node without room is tried again after 1 s, doubling to 5 minutes", () => {
  const starved = new StarvedNodes();
  const pauses = Array.from({ length: 11 }, () => {
    starved.attempted("node0");
    return starved.missed("node0");
  });
  expect(pauses).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map((seconds) => seconds * 1_000));
});

test("a node that is recreated under its name begins at 1 s", () => {
  const starved = new StarvedNodes();
  starved.missed("node0");
  starved.missed("node0");
  starved.forget("node0");
  expect(starved.waits("node0")).toBeFalse();
  expect(starved.missed("node0")).toBe(1_000);
});

test("ten nodes without room are tried per second, however many there are", () => {
  const starved = new StarvedNodes();
  const pauses = Array.from({ length: 500 }, (_each, index) => starved.missed(`node${index}`));
  expect([pauses[0], pauses[9], pauses[10], pauses[499]]).toEqual([1_000, 1_000, 1_100, 50_000]);
  expect(starved.missed("node0")).toBe(50_000);
});

test("blocks that become free wake as many nodes, the longest waiting first", () => {
  const starved = new StarvedNodes();
  for (const name of ["node0", "node1", "node2"]) starved.missed(name);
  starved.attempted("node0");
  starved.missed("node0");
  expect(starved.wake(2)).toEqual(["node1", "node2"]);
  expect(["node0", "node1", "node2"].filter((name) => starved.waits(name))).toEqual(["node0"]);
  expect(starved.wake(2)).toEqual(["node0"]);
  expect(starved.wake(2)).toEqual([]);
});
