import { expect, test } from "bun:test";

import { LastingFailures, statusLines, type WatchedStatus } from "../../../host/sandbox/watch-output.ts";

const calm: WatchedStatus = {
  generation: 4,
  configHash: "abc",
  disabled: false,
  lastOutcome: undefined,
  lastRefusal: undefined,
  lastRollback: undefined,
  refusedPlugins: [],
  waitingFor: [],
  lastOverdueDrain: undefined,
};
const at = "2026-11-22T12:00:00.000Z";
const rollback = {
  at,
  generation: 5,
  controller: "greeter-controller",
  reason: "boom",
  outcome: "the previous generation runs again",
  replacement: undefined,
};

test("the screen names, after a rollback, the generation that failed, the one that runs, and what it was made of", () => {
  const failed: WatchedStatus = { ...calm, generation: 0, lastRollback: rollback, lastRefusal: { at, reason: "boom" } };
  expect(statusLines({ ...calm, generation: 5 }, failed)).toEqual([
    "Generation 5 failed, the previous generation runs again: greeter-controller: boom",
  ]);
  const again = { ...failed, generation: 6, lastRollback: { ...rollback, replacement: { generation: 6, of: 4 } } };
  expect(statusLines(failed, again)).toEqual([
    "Generation 6 runs again with the plugins and config of 4 (config abc), under the same lease",
  ]);
  expect(statusLines(again, { ...again, generation: 7 })).toEqual([
    "Generation 7 runs (config abc), under the same lease",
  ]);
});

test("the screen names what a slow drain waits for, and what did not return", () => {
  const waiting: WatchedStatus = { ...calm, waitingFor: ["greeter-controller"] };
  expect(statusLines(calm, waiting)).toEqual([
    "Waiting for greeter-controller to return; no controller runs meanwhile",
  ]);
  expect(statusLines(waiting, waiting)).toEqual([]);
  const reason = "greeter-controller of generation 4 did not return within 30 s (--generation-drain-timeout)";
  expect(statusLines(waiting, { ...calm, lastOverdueDrain: { at, reason } })).toEqual([reason]);
});

test("the screen names each plugin that is left out, once", () => {
  const refused: WatchedStatus = { ...calm, refusedPlugins: [{ plugin: "greeter", reason: "no such kind", at }] };
  expect(statusLines(calm, refused)).toEqual(["Plugin left out: greeter: no such kind"]);
  expect(statusLines(refused, refused)).toEqual([]);
});

test("the screen tells a refused reload from a generation that failed", () => {
  const refused: WatchedStatus = { ...calm, lastRefusal: { at, reason: "vmType: unknown" } };
  expect(statusLines(calm, refused)).toEqual(["Reload refused, generation 4 continues: vmType: unknown"]);
});

test("the screen shows a reload that changes nothing, once", () => {
  const reason = "config and plugins are unchanged";
  const same: WatchedStatus = { ...calm, lastOutcome: { at, trigger: "SIGHUP", result: "unchanged", reason } };
  expect(statusLines(calm, same)).toEqual([`Nothing to reload: ${reason}`]);
  expect(statusLines(same, same)).toEqual([]);
  const swapped: WatchedStatus = {
    ...same,
    generation: 5,
    lastOutcome: { at, trigger: "SIGHUP", result: "reloaded", reason: "generation 5 runs" },
  };
  expect(statusLines(same, swapped)).toEqual(["Generation 5 runs (config abc), under the same lease"]);
});

test("the screen shows work that fails for two seconds, once for as long as it fails", () => {
  const failures = new LastingFailures();
  const boom = (line: string): ReadonlyMap<string, string> => new Map([["one-controller\nboom", line]]);
  expect(failures.begun(boom('cannot sync "a": boom'), 1_000)).toEqual([]);
  expect(failures.begun(boom('cannot sync "a" and 1 more: boom'), 2_900)).toEqual([]);
  expect(failures.begun(boom('cannot sync "a" and 2 more: boom'), 3_000)).toEqual(['cannot sync "a" and 2 more: boom']);
  expect(failures.begun(boom('cannot sync "b": boom'), 60_000)).toEqual([]);
  expect(failures.begun(new Map(), 61_000)).toEqual([]);
  expect(failures.begun(boom('cannot sync "a": boom'), 62_000)).toEqual([]);
  expect(failures.begun(boom('cannot sync "a": boom'), 64_000)).toEqual(['cannot sync "a": boom']);
});
