import { describe, expect, test } from "bun:test";

import type { Service, Store } from "cloud-controller-host/sdk";

import { indexed, listingOf, ObjectRows, pageOf } from "../../../host/console/rows.ts";

const states = ["ready", "not ready", "failing"] as const;
const rows = Array.from({ length: 3_000 }, (_, index) => ({
  name: `service-${(index * 7_919) % 3_000}`,
  state: states[index % 3] ?? "ready",
  milliseconds: index % 100,
}));
const all = rows.map((row) => indexed(row, row.state));
const page = (query: string) => pageOf(all, listingOf(new URLSearchParams(query)), ({ state }) => state);

describe("a page of a list", () => {
  test("has the rows from the offset on, and counts all rows by state whatever the filter keeps", async () => {
    const { rows: shown, ...rest } = await page("filter=SERVICE-12&offset=2&limit=3");
    expect(shown).toEqual(rows.filter(({ name }) => name.includes("service-12")).slice(2, 5));
    expect(rest).toEqual({
      total: 3_000,
      matching: 111,
      offset: 2,
      counts: { ready: 1_000, "not ready": 1_000, failing: 1_000 },
    });
  });

  test("is sorted across all rows by text or by number, in both directions", async () => {
    const names = rows.map(({ name }) => name).toSorted();
    expect((await page("sort=name&limit=500")).rows.map(({ name }) => name)).toEqual(names.slice(0, 500));
    expect((await page("sort=-name&limit=1")).rows[0]?.name).toBe(names.at(-1) ?? "");
    const times = (await page("sort=milliseconds&limit=500&offset=200")).rows.map(({ milliseconds }) => milliseconds);
    expect(times).toEqual(times.toSorted((one, other) => one - other));
    expect(times[0]).toBe(6);
  });

  test("is for a filter of at most 200 characters", () => {
    expect(listingOf(new URLSearchParams({ filter: "F".repeat(300) })).filter).toBe("f".repeat(200));
  });

  test("keeps the rows of one state alone with state:NAME", async () => {
    const { matching, rows: shown } = await page("filter=state:ready");
    expect(matching).toBe(1_000);
    expect(new Set(shown.map(({ state }) => state))).toEqual(new Set(["ready"]));
  });

  test.each(["offset=-1&limit=x", "offset=1e9&limit=", "sort=__proto__&limit=-5", "sort=constructor"])(
    "takes the defaults in place of what is invalid: %s",
    async (query) => {
      const { rows: shown, offset } = await page(query);
      expect(shown).toEqual(rows.slice(0, 100));
      expect(offset).toBe(0);
    },
  );

  test("never has more than 500 rows", async () => {
    expect((await page("limit=999999")).rows).toHaveLength(500);
  });
});

test("a row is made once per version of its object, by all pages together", async () => {
  let made = 0;
  let list: readonly Service[] = [{ metadata: { name: "a" } }, { metadata: { name: "b" } }];
  const store: Store<Service> = { get: () => undefined, list: () => list, size: 2 };
  const objects = new ObjectRows(
    () => store,
    ({ metadata }) => {
      made += 1;
      return { name: metadata?.name ?? "", state: "ready" };
    },
  );
  await Promise.all([objects.all(), objects.all()]);
  expect(made).toBe(2);
  list = [...list, { metadata: { name: "c" } }];
  expect((await objects.all())?.map(({ row }) => row.name)).toEqual(["a", "b", "c"]);
  expect(made).toBe(3);
});
