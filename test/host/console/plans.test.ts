import { beforeEach, describe, expect, test } from "bun:test";

import { Value } from "@sinclair/typebox/value";
import { type ManualClock, manualClock } from "cloud-controller-host/sdk/testing";

import { Plans } from "../../../host/console/plans.ts";
import { answers } from "../../../host/console/schema.ts";

let clock: ManualClock;
let plans: Plans;
let begun: { readonly signal: AbortSignal; readonly made: PromiseWithResolvers<string> }[];

const empty = {
  version: 1,
  cloud: "test",
  complete: true,
  changes: [],
  held: [],
  refused: [],
  failures: [],
  inFlight: [],
  skippedControllers: [],
};

beforeEach(() => {
  clock = manualClock();
  begun = [];
  plans = new Plans(clock, (signal) => {
    const made = Promise.withResolvers<string>();
    begun.push({ signal, made });
    return made.promise;
  });
});

const read = (wantsNew = false) => Value.Parse(answers.plan, JSON.parse(plans.answer(wantsNew)));
const settle = () => clock.advance(0);

describe("the plan of the console", () => {
  test("is made once for all pages that ask for it, in the form of plan --output=json", async () => {
    expect([read(), read(true), read()]).toEqual(Array.from({ length: 3 }, () => ({ planning: true })));
    expect(begun).toHaveLength(1);
    expect(plans.revision).toBe(1);
    await clock.advance(2_500);
    begun[0]?.made.resolve(JSON.stringify({ plan: empty, changesLeftOut: 0 }));
    await settle();
    const made = { madeAt: "2026-01-01T00:00:02.500Z", seconds: 2.5 };
    expect(read()).toEqual({ planning: false, ...made, plan: { ...empty, version: 1 }, changesLeftOut: 0 });
    expect(plans.revision).toBe(2);
  });

  test("is made again when a page asks for a new one, and not before it is 5 s old", async () => {
    read();
    begun[0]?.made.resolve("{}");
    await settle();
    await clock.advance(4_999);
    expect(read(true).planning).toBe(false);
    await clock.advance(1);
    expect(read().planning).toBe(false);
    expect(read(true).planning).toBe(true);
    expect(begun).toHaveLength(2);
  });

  test("names why it could not be made, and is not tried again unless a page asks for it", async () => {
    read();
    begun[0]?.made.reject(new Error('"the API server" is not reachable'));
    await settle();
    await clock.advance(60_000);
    expect(read()).toEqual({
      planning: false,
      madeAt: "2026-01-01T00:00:00.000Z",
      seconds: 0,
      failure: '"the API server" is not reachable',
    });
    expect(begun).toHaveLength(1);
  });

  test("is aborted at the end of the host, which waits for it and begins no other", async () => {
    read();
    const ended = plans[Symbol.asyncDispose]();
    expect(begun[0]?.signal.aborted).toBe(true);
    begun[0]?.made.reject(new Error("aborted"));
    await ended;
    await clock.advance(60_000);
    expect(read(true).planning).toBe(false);
    expect(begun).toHaveLength(1);
  });
});
