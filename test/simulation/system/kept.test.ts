import { expect, setDefaultTimeout, test } from "bun:test";

import { CampaignEndedError } from "./campaign.ts";
import { defects } from "./defects/table.ts";
import { keptBites, type KeptDefect, type KeptReport, type KeptRow } from "./kept-bites.ts";
import { keptHistories } from "./kept/table.ts";

setDefaultTimeout(600_000);

const keptDefects: readonly KeptDefect[] = Object.entries(defects).flatMap(([defect, { kept }]) =>
  kept === undefined ? [] : [{ defect, kept }],
);

/** Two defects of each of these run always, and all of the table in the nightly workflow. */
const always = [
  "calm",
  "Services change",
  "routes of others",
  "nodes come, of node IPs",
  "a Service is created after a reload",
  "Azure refuses connections for a quarter of an hour",
];

test("histories that are kept with defects find them, and find nothing without", async () => {
  const chosen = always.flatMap((name) => keptDefects.filter(({ kept }) => kept === name).slice(0, 2));
  const bites = await Array.fromAsync(keptBites(chosen, 2_048));
  expect(bites.filter(({ by }) => by === undefined)).toEqual([]);
  expect(bites.length).toBe(chosen.length);
  expect(bites.length).toBeGreaterThanOrEqual(8);
});

test("every kept history that a defect names is there, and a defect names each", () => {
  const named = new Set(keptDefects.map(({ kept }) => kept));
  expect(new Set(Object.keys(keptHistories))).toEqual(named);
  expect(keptDefects.length).toBeGreaterThanOrEqual(66);
});

/** A process that runs rows until one needs too much. */
function scripted(endings: Readonly<Record<string, "limit" | "continuity">>) {
  const runs: string[] = [];
  const nameOf = ({ kept, defect }: KeptRow): string => (defect === undefined ? kept : `${kept} ${defect}`);
  async function* run(rows: readonly KeptRow[]): AsyncGenerator<KeptReport> {
    runs.push(rows.map(nameOf).join());
    for (const row of rows) {
      const ending = endings[nameOf(row)];
      if (ending === "limit") throw new CampaignEndedError(137);
      const violation = ending === undefined ? undefined : { invariant: ending, text: "" };
      yield { ...row, violation, happened: {}, cpuSeconds: 2 };
    }
  }
  return { run, runs };
}

const found = (defect: string, kept: string, by: string, cpuSeconds = 2) => {
  return { defect, histories: 1, skipped: 0, history: kept, by, cpuSeconds };
};

test("a kept history runs once without a defect, and finds those that it fails with", async () => {
  const { run, runs } = scripted({ "h one": "continuity", "g two": "continuity", g: "continuity" });
  const rows = [
    { defect: "one", kept: "h" },
    { defect: "two", kept: "g" },
    { defect: "three", kept: "h" },
  ];
  expect(await Array.fromAsync(keptBites(rows, 64, run))).toEqual([
    found("one", "h", "continuity"),
    { defect: "three", histories: 1, skipped: 0, history: undefined, by: undefined, cpuSeconds: 2 },
    { defect: "two", histories: 1, skipped: 1, history: undefined, by: undefined, cpuSeconds: 2 },
  ]);
  expect(runs).toEqual(["h,h one,h three,g,g two"]);
});

test("a kept history that ends its process is run again alone, and the others after it in another one", async () => {
  const { run, runs } = scripted({ "h one": "limit", "h two": "continuity" });
  const rows = ["one", "two"].map((defect) => ({ defect, kept: "h" }));
  expect(await Array.fromAsync(keptBites(rows, 64, run))).toEqual([
    found("one", "h", "its limits", 60),
    found("two", "h", "continuity"),
  ]);
  expect(runs).toEqual(["h,h one,h two", "h one", "h two"]);
});
