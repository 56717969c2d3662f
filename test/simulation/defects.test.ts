import { expect, setDefaultTimeout, test } from "bun:test";

import { schedules } from "./campaign.ts";
import { findDefect } from "./system/bites.ts";
import { hostDefects } from "./system/defects/host.ts";

setDefaultTimeout(300_000);

/** Tried after the one that is known, whose schedule a change of the simulation makes another one. */
const seeds = Array.from({ length: 120 }, (_, index) => String(index + 1));
const limits = { cpuSeconds: 30, memoryMiB: 2_048 };

test.each(Object.entries(hostDefects))("a schedule finds a host that %s", async (defect, { by, seed }) => {
  const bite = await findDefect(defect, [String(seed), ...seeds], limits, schedules);
  expect(bite.by, `in ${bite.histories} schedules`).toContain(by);
});
