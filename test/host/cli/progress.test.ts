import { expect, test } from "bun:test";

import { showProgress } from "../../../host/cli/progress.ts";

const erase = "\r\u001B[K";

test("a plan of more than a second shows its time and its changes on one line, and erases it", async () => {
  const written: string[] = [];
  let changes = 0;
  {
    using _ = showProgress({ write: (text) => void written.push(text), changes: () => changes });
    await Bun.sleep(800);
    expect(written).toEqual([]);
    await Bun.sleep(500);
    expect(new Set(written)).toEqual(new Set([`${erase}Planning: 1 s, no change so far`]));
    changes = 1;
    await Bun.sleep(300);
    changes = 12;
    await Bun.sleep(300);
  }
  const ended = written.length;
  expect(written).toContain(`${erase}Planning: 1 s, 1 change so far`);
  expect(written.at(-2)).toMatch(/Planning: [12] s, 12 changes so far$/u);
  expect(written.at(-1)).toBe(erase);
  await Bun.sleep(300);
  expect(written).toHaveLength(ended);
});

test("a quick plan writes nothing to the terminal", async () => {
  const written: string[] = [];
  {
    using _ = showProgress({ write: (text) => void written.push(text), changes: () => 3 });
    await Bun.sleep(100);
  }
  expect(written).toEqual([]);
});
