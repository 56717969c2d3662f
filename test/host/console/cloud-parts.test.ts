import { beforeEach, expect, test } from "bun:test";

import type { Explanation } from "cloud-controller-host/sdk";
import { type ManualClock, manualClock } from "cloud-controller-host/sdk/testing";

import { CloudParts } from "../../../host/console/cloud-parts.ts";

let clock: ManualClock;
let parts: CloudParts;
let asked: string[];
let answers: Map<string, PromiseWithResolvers<readonly Explanation[]>>;

beforeEach(() => {
  clock = manualClock();
  parts = new CloudParts(clock, "test");
  asked = [];
  answers = new Map();
});

const read = (name: string) =>
  parts.of(name, () => {
    asked.push(name);
    const answer = Promise.withResolvers<readonly Explanation[]>();
    answers.set(name, answer);
    return answer.promise;
  });

const notAnswered = { tree: [], failure: 'the cloud "test" has not answered in 20 s' };

test("one object is read at a time, and all pages that show it share the answer for 15 s after it has come", async () => {
  const shown = [read("one"), read("one"), read("two")];
  await clock.advance(10_000);
  expect(asked).toEqual(["one"]);
  answers.get("one")?.resolve([{ title: "first" }]);
  await shown[0];
  await clock.advance(15_000);
  expect(await read("one")).toEqual({ tree: [{ title: "first" }] });
  expect(asked).toEqual(["one", "two"]);
  await clock.advance(1);
  shown.push(read("one"));
  expect((await Promise.all(shown.slice(0, 3))).map(({ tree }) => tree[0]?.title)).toEqual([
    "first",
    "first",
    undefined,
  ]);
  await clock.advance(0);
  expect(asked).toEqual(["one", "two", "one"]);
});

test("a cloud that hangs delays no page for more than 20 s, and is asked for one object in that time", async () => {
  const shown = Array.from({ length: 10 }, (_, index) => read(`${index}`));
  expect((await read("one too many")).failure).toBe("10 other objects are being read; try again");
  await clock.advance(20_000);
  expect(await Promise.all(shown)).toEqual(shown.map(() => notAnswered));
  expect(asked).toEqual(["0"]);
  expect(await read("0")).toEqual(notAnswered);
  expect(asked).toEqual(["0"]);
});

test("a failure of the cloud is shown in its words, also one that is thrown at once", async () => {
  const failed = parts.of("a", () => Promise.reject(new Error("403 Forbidden")));
  const threw = parts.of("b", () => {
    throw new Error("no cloud");
  });
  expect(await Promise.all([failed, threw])).toEqual([
    { tree: [], failure: "403 Forbidden" },
    { tree: [], failure: "no cloud" },
  ]);
});

test("the answers of the latest 50 objects are kept", async () => {
  for (let index = 0; index <= 50; index++) await parts.of(`${index}`, () => Promise.resolve([]));
  const again: string[] = [];
  const ask = (name: string) =>
    parts.of(name, () => {
      again.push(name);
      return undefined;
    });
  await Promise.all([ask("50"), ask("1"), ask("0")]);
  expect(again).toEqual(["0"]);
});
