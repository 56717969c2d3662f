import { expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { read, root, shippedSources } from "./sources.ts";

const fileLimit = 300;
const usualFunction = 40;

test(`no product file is longer than ${fileLimit} lines`, async () => {
  const lengths = await Promise.all(
    shippedSources.map(async (name) => ({ name, lines: (await read(name)).trimEnd().split("\n").length })),
  );
  expect(lengths.filter(({ lines }) => lines > fileLimit)).toEqual([]);
});

/** The linter, told that every function is too long, says how long each one is. */
async function functionLengths(): Promise<readonly number[]> {
  const folder = await mkdtemp(join(tmpdir(), "length-test-"));
  try {
    const config = join(folder, "oxlintrc.json");
    const rule = ["error", { max: 1, skipBlankLines: true, skipComments: true }];
    await writeFile(
      config,
      JSON.stringify({ categories: { correctness: "off" }, rules: { "max-lines-per-function": rule } }),
    );
    const rooms = ["sdk", "host", "plugins"];
    const command = [process.execPath, "--bun", "x", "--no-install", "oxlint", "--config", config, "--format=json"];
    const report = Bun.spawn([...command, ...rooms], { cwd: root, stdout: "pipe", stderr: "inherit" });
    return [...(await report.stdout.text()).matchAll(/too many lines \((\d+)\)/g)].map(([, count]) => Number(count));
  } finally {
    await rm(folder, { recursive: true });
  }
}

test(`nine functions in ten have at most ${usualFunction} lines`, async () => {
  const lengths = (await functionLengths()).toSorted((one, other) => one - other);
  expect(lengths.length).toBeGreaterThan(0);
  expect(lengths[Math.floor(lengths.length * 0.9)]).toBeLessThanOrEqual(usualFunction);
});
