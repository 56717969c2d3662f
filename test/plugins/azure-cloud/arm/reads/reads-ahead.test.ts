import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { ReadsAhead } from "../../../../../plugins/azure-cloud/arm/reads/reads-ahead.ts";

function fixture() {
  const clock = manualClock();
  const reads: string[] = [];
  const read = (id: string): Promise<string> => {
    reads.push(id);
    return id === "bad" ? Promise.reject(new Error("No.")) : Promise.resolve(`${id} ${reads.length}`);
  };
  return { clock, reads, ahead: new ReadsAhead({ clock, maxAgeMs: 5_000, read }) };
}

test("a read that has begun is used once, whatever the case of the id", async () => {
  const { ahead, reads } = fixture();
  ahead.begin("a");
  ahead.begin("A");
  expect(await ahead.take("A")).toBe("a 1");
  expect(await ahead.take("a")).toBe("a 2");
  expect(reads).toEqual(["a", "a"]);
});

test("a read that began too long ago is not used", async () => {
  const { ahead, clock } = fixture();
  ahead.begin("a");
  await clock.advance(4_999);
  expect(await ahead.take("a")).toBe("a 1");
  ahead.begin("a");
  await clock.advance(5_000);
  expect(await ahead.take("a")).toBe("a 3");
  ahead.begin("b");
  await clock.advance(5_000);
  ahead.begin("b");
  expect(await ahead.take("b")).toBe("b 5");
});

test("a read that fails before it is needed is an error of its user alone", async () => {
  const { ahead } = fixture();
  ahead.begin("bad");
  await Bun.sleep(1);
  expect(await ahead.take("bad").catch(String)).toBe("Error: No.");
});

test("reads that are not taken are forgotten once they are too old", async () => {
  const { ahead, clock } = fixture();
  for (const id of ["a", "b", "a"]) ahead.begin(id);
  await clock.advance(3_000);
  ahead.begin("c");
  expect(ahead.size).toBe(3);
  await clock.advance(2_000);
  ahead.begin("d");
  expect(ahead.size).toBe(2);
  expect(await ahead.take("c")).toBe("c 3");
  await clock.advance(5_000);
  for (const id of ["d", "e"]) ahead.begin(id);
  expect(ahead.size).toBe(2);
  expect(await ahead.take("d")).toBe("d 5");
});
