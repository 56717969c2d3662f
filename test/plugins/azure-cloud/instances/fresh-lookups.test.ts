import { describe, expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { SharedRead } from "../../../../plugins/azure-cloud/arm/reads/shared-read.ts";
import { FreshLookups, VmTable } from "../../../../plugins/azure-cloud/instances/fresh-lookups.ts";

interface Row {
  readonly nodeName: string;
  readonly provisioningState: string;
}

const rowOf = (key: string): Row => ({ nodeName: `name-${key}`, provisioningState: "Succeeded" });

/** Lookups over scripted lists (the last one repeats) and over single reads of `stored`. */
function lookupsOver(
  lists: readonly (readonly string[])[],
  stored: readonly string[],
  { pages = 1, provisioningState = "Succeeded" } = {},
) {
  const counts: { lists: number; readonly reads: string[] } = { lists: 0, reads: [] };
  const rowsOf = (keys: readonly string[]) => new Map(keys.map((key) => [key, rowOf(key)]));
  const absent: (string | undefined)[] = [];
  const clock = manualClock();
  const ttlMs = 60_000;
  const nextTable = (): VmTable<Row> => {
    const table = new VmTable<Row>();
    const rows = rowsOf(lists[Math.min(counts.lists++, lists.length - 1)] ?? []);
    for (let page = 0; page < pages; page++) table.addPage(page === 0 ? rows : []);
    return table;
  };
  const list: SharedRead<VmTable<Row>> = new SharedRead({
    clock,
    ttlMs,
    read: () => Promise.resolve(nextTable().inherit(list.last, clock.monotonic(), clock.monotonic())),
  });
  const lookups = new FreshLookups<Row>(list, {
    clock,
    ttlMs,
    read(key) {
      counts.reads.push(key);
      const row = rowsOf(stored).get(key);
      return Promise.resolve(row && { ...row, provisioningState });
    },
    onAbsent: (known) => void absent.push(known?.nodeName),
  });
  return { list, lookups, counts, clock, absent };
}

const keys = (count: number): readonly string[] => Array.from({ length: count }, (_, index) => `${index}`);

describe("fresh lookups by key", () => {
  test("share one list, and read by itself each VM that the list lacks", async () => {
    const { lookups, counts } = lookupsOver([["0", "1"]], ["2"]);
    const found = await Promise.all(keys(4).map((key) => lookups.get(key)));
    expect(found.map((row) => row?.nodeName)).toEqual(["name-0", "name-1", "name-2", undefined]);
    expect(counts).toEqual({ lists: 1, reads: ["2", "3"] });
  });

  test("read each VM by itself where that takes no more requests than the list has pages", async () => {
    const { list, lookups, counts } = lookupsOver([keys(9)], keys(9), { pages: 3 });
    await list.get("cached");
    await Promise.all(keys(3).map((key) => lookups.get(key)));
    expect(counts).toEqual({ lists: 1, reads: ["0", "1", "2"] });
    await Promise.all(keys(4).map((key) => lookups.get(key)));
    expect(counts).toEqual({ lists: 2, reads: ["0", "1", "2"] });
  });

  test("read a single VM by itself although the list before was that of a scale set that did not exist", async () => {
    const { list, lookups, counts } = lookupsOver([[]], ["0"], { pages: 0 });
    await list.get("cached");
    await lookups.get("0");
    expect(counts).toEqual({ lists: 1, reads: ["0"] });
  });

  test("fresh lookups by key of one VM at once share one read", async () => {
    const { lookups, counts } = lookupsOver([[]], ["0"]);
    await Promise.all([lookups.get("0"), lookups.get("0")]);
    expect(counts.reads).toEqual(["0"]);
  });
});

describe("a VM that no list has and that was read by itself", () => {
  test("stays for cached readers when the list is read again, until its TTL ends", async () => {
    const { list, lookups, clock } = lookupsOver([["0"]], ["7"]);
    await list.get("fresh");
    await lookups.get("7");
    await clock.advance(59_999);
    expect((await list.get("fresh")).get("7")).toEqual(rowOf("7"));
    expect((await list.get("fresh")).getByName("name-7")).toEqual(rowOf("7"));
    await clock.advance(1);
    expect((await list.get("fresh")).get("7")).toBeUndefined();
  });

  test("has the age of its request, however long the reply takes", async () => {
    const clock = manualClock();
    const ttlMs = 60_000;
    const list: SharedRead<VmTable<Row>> = new SharedRead({
      clock,
      ttlMs,
      read: () => Promise.resolve(new VmTable<Row>().inherit(list.last, clock.monotonic(), clock.monotonic())),
    });
    const read = async (key: string): Promise<Row> => {
      await clock.advance(10_000);
      return rowOf(key);
    };
    const lookups = new FreshLookups<Row>(list, { clock, ttlMs, read, onAbsent: () => undefined });
    await list.get("fresh");
    await lookups.get("7");
    await clock.advance(49_999);
    expect((await list.get("fresh")).get("7")).toEqual(rowOf("7"));
    await clock.advance(1);
    expect((await list.get("fresh")).get("7")).toBeUndefined();
  });

  test("gives way to the list's own record", async () => {
    const { list, lookups } = lookupsOver([[], ["7"]], ["7"]);
    await list.get("fresh");
    await lookups.get("7");
    const own = await list.get("fresh");
    expect(own.get("7")).toBeDefined();
    expect(new VmTable<Row>().inherit(own, 0, 0).get("7")).toBeUndefined();
  });
});

describe("a VM that a fresh read has not found", () => {
  test("leaves the cached list, by key and by name, with what is known of its network", async () => {
    const { list, lookups, absent } = lookupsOver([["0", "1"]], []);
    await list.get("fresh");
    expect(await lookups.get("0")).toBeUndefined();
    const table = await list.get("cached");
    expect([table.get("0"), table.getByName("name-0"), table.get("1")]).toEqual([undefined, undefined, rowOf("1")]);
    expect(absent).toEqual(["name-0"]);
    // Its interfaces may be left, in the pools of load balancers.
    expect([...table.rows()]).toEqual([rowOf("0"), rowOf("1")]);
  });

  test("leaves the cached list as well while it is being deleted", async () => {
    const { list, lookups, absent } = lookupsOver([["0", "1"]], ["0"], { provisioningState: "Deleting" });
    await list.get("fresh");
    expect(await lookups.get("0")).toMatchObject({ provisioningState: "Deleting" });
    expect((await list.get("cached")).get("0")).toBeUndefined();
    expect(absent).toEqual(["name-0"]);
  });

  test("does not come back with a list that began before, and does with one that began after", async () => {
    const table = new VmTable<Row>();
    table.remove("0", 5);
    const listed = (): VmTable<Row> => {
      const later = new VmTable<Row>();
      later.addPage([["0", rowOf("0")]]);
      return later;
    };
    expect(listed().inherit(table, 4, 9).get("0")).toBeUndefined();
    expect(listed().inherit(table, 6, 9).get("0")).toEqual(rowOf("0"));
  });
});

describe("a VM whose node was deleted", () => {
  const listed = (...entries: (readonly [string, Row])[]): VmTable<Row> => {
    const table = new VmTable<Row>();
    table.addPage(entries);
    return table;
  };

  test("is found by key and not by name, until a list that began afterwards has it", () => {
    const table = listed(["0", rowOf("0")]);
    table.forgetName("name-0", 5);
    expect([table.get("0"), table.getByName("name-0")]).toEqual([rowOf("0"), undefined]);
    expect(
      listed(["0", rowOf("0")])
        .inherit(table, 4, 9)
        .getByName("name-0"),
    ).toBeUndefined();
    expect(
      listed(["0", rowOf("0")])
        .inherit(table, 6, 9)
        .getByName("name-0"),
    ).toEqual(rowOf("0"));
  });

  test("is not found by name after a later list that lacks it, although it was read by itself", () => {
    const table = new VmTable<Row>();
    table.set("0", rowOf("0"), 100);
    table.forgetName("name-0", 5);
    const later = new VmTable<Row>().inherit(table, 6, 9);
    expect([later.get("0"), later.getByName("name-0")]).toEqual([rowOf("0"), undefined]);
  });

  test("does not take its name from the VM that a later list shows under it", () => {
    const table = new VmTable<Row>();
    table.set("0", rowOf("0"), 100);
    const successor = { ...rowOf("0"), provisioningState: "Creating" };
    expect(listed(["1", successor]).inherit(table, 6, 9).getByName("name-0")).toEqual(successor);
  });

  test("does not take the name with it that another VM of the list has", () => {
    const successor = { ...rowOf("0"), provisioningState: "Creating" };
    const table = listed(["0", rowOf("0")], ["1", successor]);
    table.remove("0", 5);
    expect(table.getByName("name-0")).toEqual(successor);
  });
});

describe("fresh lookups by name", () => {
  test("find a VM in the second list that the first one lost between two pages", async () => {
    const { lookups, counts } = lookupsOver([[], ["7"]], []);
    expect(await lookups.getByName("name-7", undefined)).toEqual(rowOf("7"));
    expect(counts).toEqual({ lists: 2, reads: [] });
  });

  test("report absence after the likely key and two lists, and not before", async () => {
    const { lookups, counts } = lookupsOver([["1"]], []);
    expect(await lookups.getByName("name-7", "7")).toBeUndefined();
    expect(counts).toEqual({ lists: 2, reads: ["7"] });
  });

  test("do not take the VM with the likely key when it has another name", async () => {
    const { lookups } = lookupsOver([["8"]], ["7"]);
    expect(await lookups.getByName("name-8", "7")).toEqual(rowOf("8"));
  });
});
