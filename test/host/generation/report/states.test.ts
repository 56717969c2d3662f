import { describe, expect, test } from "bun:test";

import * as fc from "fast-check";

import {
  type Effect,
  type EventName,
  initialState,
  type Phase,
  rows,
  type SlotState,
  transition,
} from "../../../../host/generation/report/states.ts";
import { phaseRules } from "../phase-rules.ts";

const events: readonly EventName[] = [...new Set(rows.map(({ on }) => on))];
const phases: readonly Phase[] = rows.map(({ from }) => from).concat("stopped");
const anyEvents = fc.array(fc.constantFrom(...events), { maxLength: 40 });

/** Every state on the way, with the effects that led to it. */
function walk(sequence: readonly EventName[]): readonly { state: SlotState; effects: readonly Effect[] }[] {
  const steps: { state: SlotState; effects: readonly Effect[] }[] = [{ state: initialState, effects: [] }];
  for (const event of sequence) steps.push(transition(steps.at(-1)?.state ?? initialState, event));
  return steps;
}

/** Every state that some sequence of events leads to. */
const reachable: readonly SlotState[] = (() => {
  const seen = new Map<string, SlotState>();
  const open: SlotState[] = [initialState];
  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    if (seen.has(JSON.stringify(state))) continue;
    seen.set(JSON.stringify(state), state);
    for (const event of events) open.push(transition(state, event).state);
  }
  return [...seen.values()];
})();

/** Events that a phase ignores, whatever its state; every other event of a phase has rows. */
const ignored: Readonly<Record<Phase, string>> = {
  standby: "cachesReady cachesStale drained failed lockWon lost proven recovered recoveryFailed settled",
  preparing: "drained failed leading lockWon proven recovered recoveryFailed settled",
  running: "cachesReady drained leading recovered recoveryFailed settled",
  draining: "cachesReady cachesStale failed leading lockWon proven recovered recoveryFailed settled",
  fenced: "cachesReady cachesStale failed leading lockWon proven recovered recoveryFailed",
  recovering: "cachesReady cachesStale drained failed leading lockWon proven settled",
  disabled: "cachesReady cachesStale drained failed leading lockWon proven recovered recoveryFailed settled",
  stopping:
    "cachesReady cachesStale disable failed leading lockWon prepared proven recovered recoveryFailed settled stop",
  stopped: events.toSorted().join(" "),
};

/** Events that have rows, in states that none of the rows is for: with the candidate gone, or before or after a drain. */
const ignoredInState = [
  "preparing to run: cachesReady",
  "fenced to recover: drained",
  "fenced to disable: drained",
  "fenced to run with a candidate: drained",
  "fenced to end: settled",
];

const nameOf = ({ phase, goal, candidate }: SlotState): string =>
  `${phase} to ${goal}${candidate ? " with a candidate" : ""}`;

describe("the table of generation states", () => {
  test("has rows for every pair of phase and event, or ignores it on purpose", () => {
    for (const phase of Object.keys(phaseRules)) {
      const without = events.filter((event) => !rows.some(({ from, on }) => from === phase && on === event));
      expect({ [phase]: without.toSorted().join(" ") }).toEqual({ [phase]: Reflect.get(ignored, phase) });
    }
  });

  test("changes a state only by its rows, and has one for every state but those that ignore the event on purpose", () => {
    const unchanged: string[] = [];
    for (const state of reachable)
      for (const event of events) {
        const { state: next, effects } = transition(state, event);
        const isIgnored = ignored[state.phase].split(" ").includes(event);
        if (isIgnored) expect([nameOf(state), event, next, effects]).toEqual([nameOf(state), event, state, []]);
        else if (next === state) unchanged.push(`${nameOf(state)}: ${event}`);
      }
    expect(unchanged.toSorted()).toEqual(ignoredInState.toSorted());
  });

  test("disables the cloud provider in every state that does not end, and never starts a candidate after that", () => {
    const after = reachable.map((state) => {
      const { state: next, effects } = transition(state, "disable");
      return `${nameOf(state)} -> ${nameOf(next)}: ${effects.join(" ")}`;
    });
    expect(after.toSorted()).toEqual([
      "disabled to run -> disabled to run: disabled",
      "draining to disable -> draining to disable: discard",
      "draining to recover -> draining to disable: discard",
      "draining to run with a candidate -> draining to disable: discard",
      "fenced to disable -> fenced to disable: discard",
      "fenced to end -> fenced to end: ",
      "fenced to recover -> fenced to disable: discard",
      "fenced to run with a candidate -> fenced to disable: discard",
      "preparing to run -> disabled to run: discard disabled",
      "preparing to run with a candidate -> disabled to run: discard disabled",
      "recovering to recover -> disabled to run: abandon disabled",
      "running to run -> draining to disable: remember drain",
      "standby to disable -> standby to disable: discard disabled",
      "standby to run -> standby to disable: discard disabled",
      "standby to run with a candidate -> standby to disable: discard disabled",
      "stopped to end -> stopped to end: ",
      "stopping to end -> stopping to end: ",
    ]);
  });

  test("has a rule for every phase, and a way out of every phase but the last on stop and on loss", () => {
    expect(Object.keys(phaseRules).toSorted()).toEqual([...new Set(phases)].toSorted());
    for (const from of new Set(rows.map((row) => row.from))) {
      const on = (event: EventName): boolean => rows.some((row) => row.from === from && row.on === event);
      expect([from, on("stop") || from === "stopping"]).toEqual([from, true]);
      expect([from, on("lost") || from === "standby"]).toEqual([from, true]);
    }
  });

  test("has no row that an earlier row shadows", () => {
    const seen = new Set<string>();
    for (const { from, on, when } of rows) {
      expect([from, on, seen.has(`${from} ${on}`)]).toEqual([from, on, false]);
      if (when === undefined) seen.add(`${from} ${on}`);
    }
  });

  test("starts only fenced controllers, and only after a drain, in any order of events", () => {
    fc.assert(
      fc.property(anyEvents, (sequence) => {
        let open = false;
        for (const { effects } of walk(sequence))
          for (const effect of effects) {
            if (effect === "fence") open = false;
            if (effect === "start") {
              expect(open).toBe(false);
              open = true;
            }
          }
      }),
      { seed: 20_261_121, numRuns: 2_000 },
    );
  });

  test("ends once, and never leaves its final phase", () => {
    fc.assert(
      fc.property(anyEvents, (sequence) => {
        const steps = walk(sequence);
        expect(steps.flatMap(({ effects }) => effects).filter((effect) => effect === "end").length).toBeLessThan(2);
        const last = steps.findIndex(({ state }) => state.phase === "stopped");
        if (last >= 0) for (const { state } of steps.slice(last)) expect(state.phase).toBe("stopped");
      }),
      { seed: 20_261_122, numRuns: 2_000 },
    );
  });

  test("ends once it is to end, whatever is requested meanwhile", () => {
    const ending = reachable.filter(({ goal }) => goal === "end");
    for (const state of ending)
      for (const event of events)
        expect([state, event, transition(state, event).state.goal]).toEqual([state, event, "end"]);
  });

  test("continues after a fence with what was requested last", () => {
    const fenced: readonly EventName[] = ["prepared", "leading", "cachesReady", "prepared", "drained"];
    const after = (...requested: readonly EventName[]): Phase | undefined =>
      walk([...fenced, ...requested, "settled"]).at(-1)?.state.phase;
    expect([after(), after("disable"), after("disable", "prepared")]).toEqual(["running", "disabled", "running"]);
  });

  test("owns a candidate exactly from its adoption to its start or disposal", () => {
    fc.assert(
      fc.property(anyEvents, (sequence) => {
        let candidate = false;
        for (const { state, effects } of walk(sequence)) {
          for (const effect of effects) {
            if (effect === "adopt") candidate = true;
            if (effect === "start") expect(candidate).toBe(true);
            if (effect === "start" || effect === "discard") candidate = false;
          }
          expect([state.phase, state.candidate]).toEqual([state.phase, candidate]);
        }
      }),
      { seed: 20_261_123, numRuns: 2_000 },
    );
  });

  test("reaches every phase", () => {
    expect([...new Set(reachable.map(({ phase }) => phase))].toSorted()).toEqual([...new Set(phases)].toSorted());
  });
});
