import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { campaign, describeFailure } from "./campaign.ts";
import { type Action, actionKinds, historyOf, hourOf } from "./history.ts";
import { minuteOf, pairOf } from "./minute.ts";
import { fullPace } from "./pace.ts";

setDefaultTimeout(120_000);

test("an hour of a large cluster has the actions of histories one after the other, and none after it", () => {
  const hour = hourOf(1);
  const [one, other] = [historyOf(100), historyOf(101)];
  const { eventfulMs } = one.pace ?? fullPace;
  const shifted = other.actions.map((action) => ({ ...action, at: eventfulMs + action.at }));
  expect(hour.actions.slice(0, one.actions.length + shifted.length)).toEqual([...one.actions, ...shifted]);
  const times = hour.actions.map(({ at }) => at);
  expect(times.at(-1)).toBeGreaterThan(50 * 60_000);
  expect(times.at(-1)).toBeLessThan(60 * 60_000);
  expect(hour).toMatchObject({ seed: 1, nodes: 50, services: 20, pace: { lease: "default", eventfulMs: 3_600_000 } });
});

test("a cluster that begins with more nodes and Services than others ever have does not grow", async () => {
  const action: Action = { at: 0, kind: "joinNodes", host: 0, pick: 2, forMs: 0, fault: "slow", target: "azure" };
  const actions = [action, { ...action, kind: "createService", pick: 20 } as const];
  const pace = { lease: "default", eventfulMs: 5_000, silentMs: 0, convergeMs: 0 } as const;
  const history = JSON.stringify({ ...hourOf(1), hosts: 1, actions, pace });
  const [report] = await Array.fromAsync(campaign({ seeds: history, trace: true }));
  if (report === undefined) throw new Error("the history has no report");
  const named = (pattern: RegExp) => report.trace.flatMap((line) => pattern.exec(line)?.[1] ?? []);
  expect(new Set(named(/ kubelet registers (\S+)/u)).size, describeFailure(report)).toBe(50);
  expect(named(/ user +creates (\S+) as /u)).toEqual(Array.from({ length: 20 }, (_, index) => `s${index}`));
  expect(report.history).toBeUndefined();
});

test("a process that starts while a Lease is valid for an hour has that hour to lead, whatever a person writes later", async () => {
  const action: Action = { at: 66_000, kind: "killHost", host: 0, pick: 0, forMs: 0, fault: "slow", target: "kube" };
  const edit = { ...action, kind: "editLease" } as const;
  // The next process begins in between.
  const actions = [action, { ...edit, at: 66_500, pick: 2 }, { ...edit, at: 72_000, pick: 0 }];
  const pace = { lease: "default", eventfulMs: 75_000, silentMs: 0 } as const;
  const plain = { cluster: "plain", hosts: 1, nodes: 1, services: 1, operationPolls: 1 } as const;
  const history = JSON.stringify({ seed: 1, ...plain, pace, actions });
  const [report] = await Array.fromAsync(campaign({ seeds: history, trace: true }));
  if (report === undefined) throw new Error("the history has no report");
  expect(report.violations, describeFailure(report)).toEqual([]);
  const texts = report.trace.flatMap((line) => /sets the duration of the Lease to (.+)$/u.exec(line)?.[1] ?? []);
  expect(texts).toEqual(["3600 s", "1 s"]);
});

describe("a minute", () => {
  const seeds = Array.from({ length: 300 }, (_, seed) => seed);
  const minutes = seeds.map((seed) => minuteOf(seed, ["returnNode", "reload"]));

  test("a minute of a seed is always the same, and has what it needs", () => {
    expect(seeds.map((seed) => minuteOf(seed, ["returnNode", "reload"]))).toEqual(minutes);
    const lacking = minutes.filter(({ actions }) =>
      ["returnNode", "reload"].some((need) => !actions.some(({ kind }) => kind === need)),
    );
    expect(lacking).toEqual([]);
  });

  test("all of a minute begins within seconds, and has a minute to meet what it has begun", () => {
    for (const { actions, pace } of minutes) {
      const [first, last] = [actions[0]?.at ?? 0, actions.at(-1)?.at ?? 0];
      expect(first).toBeGreaterThanOrEqual(45_000);
      expect(last - first).toBeLessThan(90_000);
      expect((pace?.eventfulMs ?? 0) - last).toBeGreaterThanOrEqual(60_000);
    }
    const brief = minutes.filter(({ actions }) => (actions.at(-1)?.at ?? 0) - (actions[0]?.at ?? 0) < 3_000);
    expect(brief.length).toBeGreaterThan(30);
  });

  test("minutes have every kind of action that other histories have", () => {
    const happened = new Set(minutes.flatMap(({ actions }) => actions.map(({ kind }) => kind)));
    const ofOthers = actionKinds.filter((kind) => !happened.has(kind));
    // All but `endAtWrite` are of kept histories alone.
    expect(ofOthers).toEqual(["retireNode", "misconfigure", "endAtWrite", "replayWatches", "loseWatches", "holdRead"]);
  });

  test("minutes of pairs have both of two kinds of action, and a different pair for almost every seed", () => {
    const all = Array.from({ length: 1_500 }, (_, seed) => pairOf(seed));
    expect(new Set(all.map((pair) => pair.join())).size).toBeGreaterThan(1_300);
    const lacking = seeds.filter((seed) => {
      const kinds = new Set(minuteOf(seed, pairOf(seed)).actions.map(({ kind }) => kind));
      return pairOf(seed).length === 0 || !pairOf(seed).every((kind) => kinds.has(kind));
    });
    expect(lacking).toEqual([]);
  });

  test("a minute with Services of another controller has no second deployment", () => {
    const both = seeds.map((seed) => minuteOf(seed, ["serveElsewhere"])).filter(({ second }) => second !== undefined);
    expect(both).toEqual([]);
    expect(minutes.some(({ second }) => second !== undefined)).toBe(true);
  });
});
