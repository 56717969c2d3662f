import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { projectFiles, root } from "./sources.ts";

/** A house with the real walls (every tsconfig.json and package.json) and almost no code. */
const usesSdk = `import { word } from "cloud-controller-host/sdk";\nexport const other = word;`;
const rooms: Readonly<Record<string, string>> = {
  ...Object.fromEntries(projectFiles.filter(isPlugin).map((name) => [name, usesSdk])),
  "sdk/index.ts": "export const word = 1;",
  "sdk/testing.ts": "export const word = 1;",
  "host/main.ts": usesSdk,
  "host/console/page/main.tsx": "export const word = 1;",
  "test/all.ts": `export { other } from "../host/main.ts";\nexport { other as third } from "../plugins/route/plugin.ts";`,
};

function isPlugin(name: string): boolean {
  return /^plugins\/[^/]+\/plugin\.ts$/.test(name);
}

const breaches: readonly { readonly from: string; readonly to: string }[] = [
  { from: "sdk", to: "host/main.ts" },
  { from: "sdk", to: "plugins/route/plugin.ts" },
  { from: "host", to: "plugins/route/plugin.ts" },
  { from: "host", to: "test/all.ts" },
  { from: "plugins/route", to: "host/main.ts" },
  { from: "plugins/route", to: "plugins/lifecycle/plugin.ts" },
  { from: "plugins/route", to: "test/all.ts" },
];

let house = "";

async function put(name: string, content: string): Promise<void> {
  await mkdir(dirname(join(house, name)), { recursive: true });
  await writeFile(join(house, name), `${content}\n`);
}

async function typeErrors(): Promise<readonly string[]> {
  const command = [process.execPath, "check", "--no-script", "--no-pretty", "--all"];
  const child = Bun.spawn(command, { cwd: house, stdout: "pipe", stderr: "pipe" });
  const [out] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return out.split("\n").filter((line) => line.includes(": error TS"));
}

beforeAll(async () => {
  house = await mkdtemp(join(tmpdir(), "walls-test-"));
  const walls = projectFiles.filter((name) => /(^|\/)tsconfig\.json$|^package\.json$/.test(name));
  for (const name of walls) await cp(join(root, name), join(house, name));
  await symlink(join(root, "node_modules"), join(house, "node_modules"));
  for (const [name, content] of Object.entries(rooms)) await put(name, content);
});

afterAll(() => rm(house, { recursive: true }));

describe("the type checker", () => {
  test("accepts what the import walls allow", async () => {
    expect(await typeErrors()).toEqual([]);
  });

  for (const [index, { from, to }] of breaches.entries())
    test(`stops ${from} from importing ${to}`, async () => {
      const breach = `${from}/breach-${index}.ts`;
      const path = `${"../".repeat(from.split("/").length)}${to}`;
      await put(breach, `import * as other from "${path}";\nexport const names = Object.keys(other);`);
      const errors = (await typeErrors()).filter((line) => line.startsWith(breach));
      await rm(join(house, breach));
      expect(errors).toContainEqual(expect.stringContaining("TS6307"));
    });
});
