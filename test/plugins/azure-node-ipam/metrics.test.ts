import { expect, test } from "bun:test";

import { openOccupancy } from "./occupied.ts";

const v4 = "10.0.0.0/16";
const v6 = "2001:db8::/48";

async function all({ metric }: ReturnType<typeof openOccupancy>, cluster: string): Promise<readonly unknown[]> {
  const names = ["usage_cidrs", "cidrs_allocations_total", "cidrs_releases_total", "allocation_tries_per_request_sum"];
  return Promise.all(names.map((name) => metric(name, cluster)));
}

test("TestCidrSetMetrics", async () => {
  const opened = openOccupancy({ clusters: [v4], masks: [24] });
  for (let index = 1; index <= 256; index++) {
    opened.offer(`node${index}`);
    expect(await all(opened, v4)).toEqual([index / 256, index, undefined, 0]);
  }
  for (let index = 1; index <= 256; index++) opened.occupancy.release(`node${index}`);
  expect(await all(opened, v4)).toEqual([0, 256, 256, 0]);
  opened.settle("all", v4);
  expect(await all(opened, v4)).toEqual([1, 512, 256, 0]);
});

test("TestCidrSetMetricsHistogram", async () => {
  const opened = openOccupancy({ clusters: [v4], masks: [24] });
  opened.settle("half", "10.0.0.0/17");
  expect((await all(opened, v4)).slice(0, 2)).toEqual([0.5, 128]);
  opened.offer("node0");
  expect(await all(opened, v4)).toEqual([129 / 256, 129, undefined, 128]);
});

test("TestCidrSetMetricsDual", async () => {
  const opened = openOccupancy({ clusters: [v4, v6], masks: [24, 64] });
  opened.settle("v4", v4);
  expect(await all(opened, v4)).toEqual([1, 256, undefined, undefined]);
  expect(await all(opened, v6)).toEqual([undefined, undefined, undefined, undefined]);
  opened.settle("v6", v6);
  expect(await all(opened, v6)).toEqual([1, 65_536, undefined, undefined]);
  opened.occupancy.release("v4");
  opened.occupancy.release("v6");
  expect(await all(opened, v4)).toEqual([0, 256, 256, undefined]);
  expect(await all(opened, v6)).toEqual([0, 65_536, 65_536, undefined]);
});

test("a CIDR of another size than a block counts as one allocation, and as many releases as it has blocks", async () => {
  const opened = openOccupancy({ clusters: [v4], masks: [26] });
  opened.offer("node0", [24]);
  expect(await all(opened, v4)).toEqual([4 / 1024, 1, undefined, 1]);
  opened.occupancy.release("node0");
  expect(await all(opened, v4)).toEqual([0, 1, 4, 1]);
});

test("the used part is told anew when the blocks become smaller", async () => {
  const opened = openOccupancy({ clusters: [v4], masks: [24] });
  opened.settle("node0", "10.0.0.0/26");
  expect(await opened.metric("usage_cidrs", v4)).toBe(1 / 256);
  opened.offer("node1", [26]);
  expect(await opened.metric("usage_cidrs", v4)).toBe(2 / 1024);
});
