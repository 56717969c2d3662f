import { expect, test } from "bun:test";

import { suggestionFor } from "cloud-controller-host/sdk";

const keys = ["subnet", "subnetName", "vnetName"];

test("a suggestion is the nearest candidate in any case, and the first of several that are equally near", () => {
  expect(suggestionFor("SUBNETNAM", keys, { maxDistance: 3 })).toBe(" (did you mean subnetName?)");
  expect(suggestionFor("subne", keys, { maxDistance: 9 })).toBe(" (did you mean subnet?)");
  expect(suggestionFor("ab", ["ax", "ay"], { maxDistance: 1 })).toBe(" (did you mean ax?)");
  expect(suggestionFor("subne", keys, { maxDistance: 1, prefix: "--" })).toBe(" (did you mean --subnet?)");
});

test("a word that differs from every candidate by more edits than may be has no suggestion", () => {
  expect(suggestionFor("subn", keys, { maxDistance: 2 })).toBe(" (did you mean subnet?)");
  expect(suggestionFor("subn", keys, { maxDistance: 1 })).toBe("");
  expect(suggestionFor("xubnex", keys, { maxDistance: 1 })).toBe("");
  expect(suggestionFor("subnet", [], { maxDistance: 9 })).toBe("");
});
