import { expect, setDefaultTimeout, test } from "bun:test";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { temporaryDirectory } from "../../../host/sandbox/directory.ts";

setDefaultTimeout(120_000);

const module = join(import.meta.dir, "../../../host/console/open-browser.ts");

/** The result in a process whose only browser is this script, or that has none. */
async function openedBy(script: string | undefined): Promise<string> {
  await using folder = await temporaryDirectory();
  const browser = join(folder.path, "xdg-open");
  if (script !== undefined) {
    await writeFile(browser, script);
    await chmod(browser, 0o755);
  }
  const code = `const { openBrowser } = await import("${module}"); console.log(openBrowser("http://127.0.0.1:1/"));`;
  const child = Bun.spawn([process.execPath, "-e", code], { env: { PATH: folder.path }, stderr: "pipe" });
  const [out, error] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  return `${out}${error}`.trim();
}

test("openBrowser returns false without a browser or for one that cannot be started, and true for one that runs", async () => {
  expect(await openedBy(undefined)).toBe("false");
  expect(await openedBy("#!/nonexistent\n")).toBe("false");
  expect(await openedBy("#!/bin/sh\n")).toBe("true");
});
