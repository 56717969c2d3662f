import { expect, test } from "bun:test";

import { recordOf } from "../../../../host/process/writes/record.ts";

test("a write with more than twenty causes has the first twenty, and the number of the others", () => {
  const causes = Array.from({ length: 23 }, (_, index) => `Service default/s${index}`);
  const source = { controller: "c", generation: 1, system: "cloud" } as const;
  const write = { operation: "PUT", resource: "lb", milliseconds: 10 };
  const record = recordOf(0, source, write, { causes, fields: [] });
  expect([record.causes, record.moreCauses]).toEqual([causes.slice(0, 20), 3]);
  expect(recordOf(0, source, write, { causes: causes.slice(0, 20), fields: [] })).not.toContainKey("moreCauses");
});
