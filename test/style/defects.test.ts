import { expect, test } from "bun:test";

import { type Defects, withDefect } from "../simulation/system/defects/defect.ts";
import { hostDefects } from "../simulation/system/defects/host.ts";
import { defects } from "../simulation/system/defects/table.ts";
import { actionKinds } from "../simulation/system/history.ts";
import { read } from "./sources.ts";

const transpiler = new Bun.Transpiler({ loader: "ts" });

/** Reasons why defects cannot be put back, after their names. */
async function faults(table: Defects): Promise<readonly string[]> {
  const found = Object.entries(table).map(async ([name, defect]) => {
    const unknown = new Set(defect.needs).difference(new Set(actionKinds));
    if (unknown.size > 0) return [`${name}: needs ${[...unknown].join()}`];
    try {
      const source = await read(defect.file);
      const changed = transpiler.transformSync(withDefect(source, defect));
      return changed === transpiler.transformSync(source) ? [`${name}: changes nothing`] : [];
    } catch (error) {
      return [`${name}: ${String(error)}`];
    }
  });
  return (await Promise.all(found)).flat();
}

test("every defect that a simulation puts back applies to the source of today and leaves it valid TypeScript", async () => {
  expect(await faults({ ...defects, ...hostDefects })).toEqual([]);
  expect(Object.keys(defects).length).toBeGreaterThanOrEqual(60);
  expect(Object.keys(hostDefects).length).toBeGreaterThanOrEqual(20);
});

test("defects whose text is absent or there twice, without an effect, or of an unknown action are found by this check", async () => {
  const file = "test/style/error-codes.test.ts";
  const rows = {
    absent: { file, from: "const nothing of the kind", to: "" },
    twice: { file, from: "test(", to: "" },
    same: { file, from: "const used =", to: "const  used =" },
    invalid: { file, from: "const used =", to: "const =" },
    missing: { file: "test/style/none.ts", from: "", to: "" },
    unknown: { file, from: "const used =", to: "const other =", needs: ["nothing"] },
  };
  expect((await faults(rows)).map((one) => one.split(":")[0])).toEqual(Object.keys(rows));
});
