import { describe, expect, test } from "bun:test";

import { isControllerEnabled } from "../../../../host/config/values/controller-list.ts";

describe("controllers enabled by a --controllers list", () => {
  const cases: readonly [promise: string, name: string, byDefault: boolean, list: readonly string[], on: boolean][] = [
    ["a name enables it", "bravo", true, ["alpha", "bravo", "-charlie"], true],
    ["a name with a hyphen disables it", "charlie", true, ["alpha", "bravo", "-charlie"], false],
    ["a star enables what is on by default", "alpha", true, ["*"], true],
    ["a star does not enable what is off by default", "alpha", false, ["*"], false],
    ["a star does not override a hyphen after it", "alpha", true, ["*", "-alpha"], false],
    ["a star does not override a hyphen before it", "alpha", true, ["-alpha", "*"], false],
    ["a name enables what is off by default, beside a star", "alpha", false, ["*", "alpha"], true],
    ["without a star, what is not named stays off", "alpha", true, ["bravo"], false],
    ["an empty list enables nothing", "alpha", true, [], false],
    ["the first item that names a controller decides: on", "alpha", true, ["alpha", "-alpha"], true],
    ["the first item that names a controller decides: off", "alpha", true, ["-alpha", "alpha"], false],
    ["a longer name is another controller", "cloud-node", true, ["cloud-node-lifecycle"], false],
  ];
  test.each(cases)("%s", (_promise, name, byDefault, list, on) => {
    expect(isControllerEnabled(name, byDefault, list)).toBe(on);
  });
});
