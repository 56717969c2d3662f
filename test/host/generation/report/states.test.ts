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

describe("the table of generation states", () => {
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
