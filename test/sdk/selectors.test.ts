import { expect, test } from "bun:test";

import { parseLabelSelector } from "cloud-controller-host/sdk";

const labels = { app: "web", "example.com/tier": "front", weight: "7", empty: "", power: "1e3", part: "7.5" };

test.each([
  ["", true],
  ["  ", true],
  ["app=web", true],
  ["app==web", true],
  ["app = web", true],
  ["app=db", false],
  ["app=we", false],
  ["empty=", true],
  ["missing=", false],
  ["app!=web", false],
  ["app!=db", true],
  ["missing!=web", true],
  ["app in (db,web)", true],
  ["app in ( db , web )", true],
  ["app in (db)", false],
  ["missing in (db)", false],
  ["missing in ()", false],
  ["empty in ()", true],
  ["app notin (db,web)", false],
  ["app notin (db)", true],
  ["missing notin (db)", true],
  ["example.com/tier", true],
  ["missing", false],
  ["!missing", true],
  ["! app", false],
  ["constructor", false],
  ["!constructor", true],
  ["weight>6", true],
  ["weight>7", false],
  ["weight<8", true],
  ["weight<-1", false],
  ["app<8", false],
  ["missing>1", false],
  ["empty<8", false],
  ["empty>-1", false],
  ["power>8", false],
  ["part<8", false],
  ["app in (db,web),!missing,weight>6", true],
  ["app in (db,web),missing", false],
] as const)("the label selector %j matches a Service's labels: %p", (selector, expected) => {
  expect(parseLabelSelector(selector)(labels)).toBe(expected);
});

test.each(["a=b=c", "a in b", "a in (b", "=b", "a,,b", "-a", "a=b c", "!a=b", "a notin (b", "a>x", "/a", "a/"])(
  "the label selector %j is refused, with the part that is wrong and the forms there are",
  (selector) => {
    expect(() => parseLabelSelector(selector)).toThrow(/^is not a valid label selector at ".*"; write key=value/u);
  },
);
