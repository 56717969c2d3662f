import { expect, test } from "bun:test";

import { type Defects, withDefect } from "../simulation/system/defects/defect.ts";
import { hostDefects } from "../simulation/system/defects/host.ts";
import { defects } from "../simulation/system/defects/table.ts";
import { read } from "./sources.ts";

/** Reasons why defects cannot be put back, by their names. */
async function outdated(table: Defects): Promise<readonly string[]> {
  const reasons = Object.entries(table).map(async ([name, defect]) => {
    try {
      const source = await read(defect.file);
      return withDefect(source, defect) === source ? [`${name}: changes nothing`] : [];
    } catch (error) {
      return [`${name}: ${error instanceof Error ? error.message : "unreadable"}`];
    }
  });
  return (await Promise.all(reasons)).flat();
}

test("each defect that a simulation puts back replaces a text that its file has once", async () => {
  expect(await outdated(defects)).toEqual([]);
  expect(await outdated(hostDefects)).toEqual([]);
});

test("a defect whose text is not in its file, is there twice or stays as it is is found by this check", async () => {
  const file = "test/style/defects.test.ts";
  const rows = {
    absent: { file, from: ["not", "there"].join("-"), to: "" },
    twice: { file, from: "twice:", to: "" },
    same: { file, from: "const reasons =", to: "const reasons =" },
    missing: { file: "test/style/none.ts", from: "", to: "" },
  };
  const found = await outdated(rows);
  expect(found.map((one) => one.split(":")[0])).toEqual(["absent", "twice", "same", "missing"]);
});
