import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

import { cloneInto, commandsOf, root } from "./fresh-clone.ts";
import { describeWithHelm } from "./helm.ts";
import { Shell } from "./shell.ts";

setDefaultTimeout(240_000);

let folder = "";
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "tutorial-"))));
afterAll(() => rm(folder, { recursive: true, force: true }));

describeWithHelm("the tutorial", (helm) => {
  test("runs as printed, from a fresh clone to the rendered chart", async () => {
    const programs = join(folder, "programs");
    await mkdir(programs);
    await symlink(helm().path, join(programs, "helm"));
    const environment = { PATH: `${programs}:${process.env["PATH"]}` };
    const page = await readFile(join(root, "sdk/TUTORIAL.md"), "utf8");
    const block = (fence: string): string => new RegExp(`^\`\`\`${fence}\\n(.*?)^\`\`\`$`, "msu").exec(page)?.[1] ?? "";
    const commands = await commandsOf("sdk/TUTORIAL.md");
    const isSandbox = (line: string): boolean => line.includes(" sandbox -- ");
    const [before, after] = [
      commands.slice(0, commands.findIndex(isSandbox)),
      commands.slice(commands.findIndex(isSandbox)),
    ];
    const [sandbox = "", createList = "", showPrices = "", ...last] = after;
    const folderOfPlugins = join(folder, "my-plugins");

    await using shell = new Shell(await cloneInto(folder), environment);
    const succeeds = async (line: string): Promise<string> => {
      expect([line, await shell.run(line), shell.screen]).toEqual([line, 0, expect.anything()]);
      return shell.screen;
    };
    for (const line of before) {
      if (line === "cd price-controller") {
        await writeFile(join(folderOfPlugins, "price-controller/plugin.ts"), block("ts plugin"));
        await writeFile(join(folderOfPlugins, "price-controller/plugin.test.ts"), block("ts test"));
      }
      await succeeds(line);
    }
    expect(shell.screen).toMatch(/\b0 fail\b/u);

    await using terminal = new Shell(join(folderOfPlugins, "price-controller"));
    terminal.type(sandbox);
    await terminal.shows("Changes:");
    if (Bun.which("kubectl") !== null) {
      await succeeds(createList);
      await eventually("the nodes have prices", async () => (await succeeds(showPrices)).includes("0.10"), 60_000);
    }
    terminal.type("q");

    await writeFile(join(folderOfPlugins, "values.yaml"), block("yaml"));
    for (const line of last) {
      if (line.startsWith("kubectl ") && Bun.which("kubectl") === null) continue;
      const shown = await succeeds(line);
      if (line.includes(" rbac ")) expect(shown).toContain('resources: ["nodes"]');
      if (line.startsWith("helm ")) expect(shown).toContain("--plugin-dir=/plugins/prices");
    }
  });
});
