import { expect, test } from "bun:test";

import { firstDifference, rangesOf, type Report, reportsOf, sideBySide } from "./campaign.ts";

const report = (hash: string, ...trace: readonly string[]): Report => ({
  seed: 7,
  hash,
  trace,
  violations: [],
  requests: 0,
  writes: 0,
  virtualMs: 0,
  cpuSeconds: 0,
  happened: {},
});

test.each([
  [10, 5, 2, ["10-12", "13-14"]],
  [1, 4, 1, ["1-4"]],
  [1, 2, 3, ["1-1", "2-2"]],
])("processes share all seeds: from %d, %d seeds, %d processes", (first, count, processes, ranges) => {
  expect(rangesOf(first, count, processes)).toEqual(ranges);
});

test("reports of campaigns side by side come as they are ready, and all campaigns end when the reader stops", async () => {
  const ended: string[] = [];
  async function* campaign(name: string, delayMs: number): AsyncGenerator<string> {
    try {
      for (let index = 0; ; index += 1) {
        await Bun.sleep(delayMs);
        yield `${name}${index}`;
      }
    } finally {
      ended.push(name);
    }
  }
  const seen: string[] = [];
  for await (const one of sideBySide([campaign("slow", 60), campaign("fast", 1)])) {
    seen.push(one);
    if (one === "slow0") break;
  }
  expect(seen.slice(0, 2)).toEqual(["fast0", "fast1"]);
  expect(ended.toSorted()).toEqual(["fast", "slow"]);
});

test("campaigns side by side end with the last of them", async () => {
  async function* numbers(...given: readonly number[]): AsyncGenerator<number> {
    yield* given;
  }
  const all = await Array.fromAsync(sideBySide([numbers(1, 2, 3), numbers(4)]));
  expect(all.toSorted((one, other) => one - other)).toEqual([1, 2, 3, 4]);
});

test("two runs of a history that differ show the first line in which they do, and the one before", () => {
  expect(firstDifference(report("same", "a"), report("same", "a"))).toEqual([]);
  const text = firstDifference(report("one", "a", "b", "c"), report("other", "a", "x", "c")).join("\n");
  expect(text).toBe("two runs of seed 7 differ in line 2\n  both: a\n  one: b\n  other: x");
  expect(firstDifference(report("one", "a"), report("other", "a", "b")).slice(1)).toEqual([
    "  both: a",
    "  one: (end)",
    "  other: b",
  ]);
});

test("a process of histories compiles only functions that run often, and keeps the rest of its environment", async () => {
  const names = ["PATH", "BUN_JSC_useFTLJIT", "BUN_JSC_thresholdForOptimizeAfterWarmUp"];
  const program = `console.log(JSON.stringify(Object.fromEntries(${JSON.stringify(names)}.map((name) => [name, process.env[name]]))))`;
  const [environment] = await Array.fromAsync(reportsOf<object>(["-e", program], {}));
  expect(environment).toEqual({
    PATH: process.env["PATH"] ?? "",
    BUN_JSC_useFTLJIT: "0",
    BUN_JSC_thresholdForOptimizeAfterWarmUp: "10000",
    trace: [],
  });
});
