import { expect, test } from "bun:test";

import { isSameFailure } from "./failures.ts";
import type { InvariantName } from "./invariants/table.ts";

const failure = (text: string, invariant: InvariantName = "eventually stable") => ({ invariant, text });

test.each([
  [
    "3600.000 s: default/s1 IPv4 member vmss0000002 is missing",
    "3540.125 s: default/s7 IPv4 member vmss1000013 is missing",
  ],
  ["347.370 s: default/s1 moved from 20.0.0.2 to 20.0.0.9", "61.002 s: default/s3 moved from 20.0.0.11 to 20.0.0.4"],
  ["9.000 s: default/s1 shows fd00::12, not none", "10.000 s: default/s2 shows fd00:a::3, not none"],
  [
    "9.000 s: default/s1 IPv4 member vmss0000002 is missing; default/s1 IPv4 member vmss0000003 is missing",
    "9.000 s: default/s1 IPv4 member vmss0000001 is missing",
  ],
  [
    "8.000 s: a5b0c1d2e3f405162738495a6b7c8d9e0-TCP-80 is left over",
    "8.000 s: a0f1e2d3c4b5a69788796a5b4c3d2e1f0-TCP-443 is left over",
  ],
])("two histories show the same defect if only names, addresses and times differ: %s", (one, other) => {
  expect(isSameFailure(failure(one), failure(other))).toBe(true);
});

test.each([
  [
    "9.000 s: default/s1 IPv4 member vmss0000002 is missing",
    "9.000 s: default/s1 IPv4 member vmss0000002 is left over",
  ],
  ["9.000 s: node vmss0000002 has no Pod CIDR", "9.000 s: node vmss0000002 has no address"],
  ["9.000 s: default/s1 is still being deleted", "9.000 s: default/s1 is still being deleted; no host leads"],
  ["9.000 s: route vmss0000001 10.1.0.0/24 10.0.0.4 is missing", "9.000 s: default/s1 IPv4 rule TCP 80 is missing"],
])("two histories show different defects if other things are wrong: %s", (one, other) => {
  expect(isSameFailure(failure(one), failure(other))).toBe(false);
});

test("two histories show different defects if they break different invariants, or if one breaks none", () => {
  const text = "9.000 s: default/s1 lost its healthy member vmss0000002";
  expect(isSameFailure(failure(text), failure(text, "continuity"))).toBe(false);
  expect(isSameFailure(failure(text), undefined)).toBe(false);
  expect(isSameFailure(undefined, undefined)).toBe(false);
});
