import { expect, test } from "bun:test";

import { covering, differencesBetween } from "./covering.ts";

test("chooses the first of the items with the most features that no chosen one has, until none is missing", () => {
  const items = ["a", "ab", "bcd", "cd", "e", "abcd"];
  expect([...covering(items, (item) => new Set(item))]).toEqual(["abcd", "e"]);
  expect([...covering(["ab", "ba", "c"], (item) => new Set(item))]).toEqual(["ab", "c"]);
  expect([...covering([], () => new Set(["a"]))]).toEqual([]);
});

test("fields that come, go or change are features, with the words of enumerations, wherever they are in a list", () => {
  const before = { kept: "Same", list: [{ gone: 1 }], port: 80, mode: "Tcp" };
  const after = { kept: "Same", list: [{ come: true }, { come: true }], port: 81, mode: "Udp", name: "web-1" };
  expect([...differencesBetween(before, after)].toSorted()).toEqual([
    "+ /list/*/come true",
    "+ /mode Udp",
    "+ /name ",
    "+ /port ",
    "- /list/*/gone",
    "- /mode",
    "- /port",
  ]);
});
