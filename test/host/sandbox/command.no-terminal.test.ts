import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

setDefaultTimeout(120_000);

const main = join(import.meta.dir, "../../../host/main.ts");

test("the sandbox offers no keys without a terminal, and names how it is stopped", async () => {
  const folder = await mkdtemp(join(tmpdir(), "no-terminal-"));
  await using ending = new AsyncDisposableStack();
  ending.defer(() => rm(folder, { recursive: true, force: true }));
  const argv = ["sandbox", `--directory=${join(folder, "sandbox")}`, "--nodes=0", "--", "--secure-port=0"];
  const child = Bun.spawn([process.execPath, "--no-install", main, ...argv], { stdin: "ignore", stdout: "pipe" });
  ending.defer(() => child.kill("SIGKILL"));
  let screen = "";
  const reading = (async () => {
    for await (const piece of child.stdout.pipeThrough(new TextDecoderStream())) screen += piece;
  })();
  await eventually("it runs", () => screen.includes("Changes:"), 60_000);
  expect(screen).toContain(`No terminal, so no keys: kill ${child.pid} or Ctrl-C stops it. Changes:`);
  expect(screen).not.toContain("q stops");
  child.kill("SIGTERM");
  expect(await child.exited).toBe(0);
  await reading;
});
