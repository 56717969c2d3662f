import { describe, expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { ConfirmedPlans } from "../../../../plugins/azure-cloud/removal-guard/confirmed-plans.ts";
import { loggerInto, type LogLine } from "../world.ts";

describe("confirmations of removals", () => {
  test("are read once per second and plan, and are missing while they cannot be read", async () => {
    const clock = manualClock();
    const reads: string[] = [];
    let isReadable = false;
    const isConfirmed = (hash: string): Promise<boolean> => {
      reads.push(hash);
      return isReadable ? Promise.resolve(true) : Promise.reject(new Error("no API server"));
    };
    const confirmations = { isConfirmed, command: (hash: string) => hash };
    const plans = new ConfirmedPlans({ clock, log: loggerInto([]), confirmations });
    expect(await plans.isConfirmed("a")).toBe(false);
    isReadable = true;
    expect(await plans.isConfirmed("a")).toBe(false);
    expect(await plans.isConfirmed("b")).toBe(true);
    await clock.advance(1_000);
    expect(await plans.isConfirmed("a")).toBe(true);
    expect(reads).toEqual(["a", "b", "a"]);
  });

  test("are missing where no host asks for any", async () => {
    const plans = new ConfirmedPlans({ clock: manualClock(), log: loggerInto([]) });
    expect(await plans.isConfirmed("a")).toBe(false);
  });

  test("are missing after 10 s where a read of them hangs", async () => {
    const confirmations = { isConfirmed: () => new Promise<boolean>(() => undefined), command: (hash: string) => hash };
    const logged: LogLine[] = [];
    const plans = new ConfirmedPlans({ clock: manualClock(), log: loggerInto(logged), confirmations });
    expect(await plans.isConfirmed("a")).toBe(false);
    expect(logged.map(({ message }) => message)).toEqual([
      "Failed to read confirmations of removals; treating them as unconfirmed",
    ]);
  }, 120_000);
});
