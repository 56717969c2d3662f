import { expect, test } from "bun:test";

import { openAllocations } from "./open-allocations.ts";

const v4 = "10.0.0.0/16";
const v6 = "2001:db8::/48";

async function all({ metric }: ReturnType<typeof openAllocations>, cluster: string): Promise<readonly unknown[]> {
  const names = ["usage_cidrs", "cidrs_allocations_total", "cidrs_releases_total", "allocation_tries_per_request_sum"];
  return Promise.all(names.map((name) => metric(name, cluster)));
}

test("counts allocations, releases and the usage of one cluster CIDR", async () => {
  const opened = openAllocations({ clusters: [v4], masks: [24] });
  for (let index = 1; index <= 256; index++) {
    opened.allocate(`node${index}`);
    expect(await all(opened, v4)).toEqual([index / 256, index, undefined, 0]);
  }
  for (let index = 1; index <= 256; index++) opened.allocations.release(`node${index}`);
  expect(await all(opened, v4)).toEqual([0, 256, 256, 0]);
  opened.observe("all", v4);
  expect(await all(opened, v4)).toEqual([1, 512, 256, 0]);
});

test("counts a large occupied block as all of its CIDRs", async () => {
  const opened = openAllocations({ clusters: [v4], masks: [24] });
  opened.observe("half", "10.0.0.0/17");
  expect((await all(opened, v4)).slice(0, 2)).toEqual([0.5, 128]);
  opened.allocate("node0");
  expect(await all(opened, v4)).toEqual([129 / 256, 129, undefined, 128]);
});

test("counts each of two cluster CIDRs by itself", async () => {
  const opened = openAllocations({ clusters: [v4, v6], masks: [24, 64] });
  opened.observe("v4", v4);
  expect(await all(opened, v4)).toEqual([1, 256, undefined, undefined]);
  expect(await all(opened, v6)).toEqual([undefined, undefined, undefined, undefined]);
  opened.observe("v6", v6);
  expect(await all(opened, v6)).toEqual([1, 65_536, undefined, undefined]);
  opened.allocations.release("v4");
  opened.allocations.release("v6");
  expect(await all(opened, v4)).toEqual([0, 256, 256, undefined]);
  expect(await all(opened, v6)).toEqual([0, 65_536, 65_536, undefined]);
});

test("a CIDR larger than a block is one allocation and one release per block", async () => {
  const opened = openAllocations({ clusters: [v4], masks: [26] });
  opened.allocate("node0", [24]);
  expect(await all(opened, v4)).toEqual([4 / 1024, 1, undefined, 1]);
  opened.allocations.release("node0");
  expect(await all(opened, v4)).toEqual([0, 1, 4, 1]);
});

test("the used fraction is updated when the blocks become smaller", async () => {
  const opened = openAllocations({ clusters: [v4], masks: [24] });
  opened.observe("node0", "10.0.0.0/26");
  expect(await opened.metric("usage_cidrs", v4)).toBe(1 / 256);
  opened.allocate("node1", [26]);
  expect(await opened.metric("usage_cidrs", v4)).toBe(2 / 1024);
});
