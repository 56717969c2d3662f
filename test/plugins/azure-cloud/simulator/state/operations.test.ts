import { afterAll, beforeEach, expect, spyOn, test } from "bun:test";

import { Operations } from "../../../../../plugins/azure-cloud/simulator/state/operations.ts";

let now = 0;
const time = spyOn(performance, "now").mockImplementation(() => now);
beforeEach(() => {
  now = 0;
});
afterAll(() => time.mockRestore());

/** One operation that two polls end, and what it has done. */
function started(maxUnpolledMs?: number) {
  const operations = new Operations({ polls: 2, style: "both", maxUnpolledMs });
  const ended: string[] = [];
  const id = operations.start("/a", {
    finish: () => ended.push("finished"),
    fail: () => ended.push("failed"),
    fault: undefined,
  });
  const after = (ms: number): readonly string[] => {
    now += ms;
    operations.endUnpolled();
    return ended;
  };
  return { operations, id, after };
}

test("an operation without polls ends after a minute, once", () => {
  const { operations, id, after } = started();
  expect(after(59_999)).toEqual([]);
  expect(after(1)).toEqual(["finished"]);
  expect(after(60_000)).toEqual(["finished"]);
  expect(operations.poll(id)?.status).toBe("Succeeded");
});

test("an operation without polls ends after the time that its simulator was given", () => {
  const { after } = started(1_000);
  expect(after(999)).toEqual([]);
  expect(after(1)).toEqual(["finished"]);
});

test("an operation that is polled lasts for its polls, however long they take", () => {
  const { operations, id, after } = started();
  expect(after(50_000)).toEqual([]);
  expect(operations.poll(id)?.status).toBe("InProgress");
  expect(after(50_000)).toEqual([]);
  expect(operations.poll(id)?.status).toBe("Succeeded");
});

test("an operation that is prolonged does not end by itself until it no longer is", () => {
  const { operations, after } = started();
  let isLong = true;
  operations.lasts = () => isLong;
  expect(after(3_600_000)).toEqual([]);
  isLong = false;
  expect(after(0)).toEqual(["finished"]);
});
