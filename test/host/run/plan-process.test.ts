import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Value } from "@sinclair/typebox/value";
import { messageOf } from "cloud-controller-host/sdk";

import { planSchema } from "../../../host/changes/plan-schema.ts";
import { planProcess } from "../../../host/run/plan-process.ts";
import { openSandbox, type Sandbox } from "../../../host/sandbox-host.ts";

setDefaultTimeout(120_000);

let sandbox: Sandbox;
let argv: readonly string[];

beforeAll(async () => {
  sandbox = await openSandbox();
  const { hostKubeconfig, cloudConfig } = sandbox.files;
  argv = [`--kubeconfig=${hostKubeconfig}`, `--cloud-config=${cloudConfig}`, "--configure-cloud-routes=false", "--v=5"];
});

afterAll(() => sandbox[Symbol.asyncDispose]());

const environment = { ...process.env };
const plan = (more: Partial<Parameters<typeof planProcess>[0]> = {}, signal = new AbortController().signal) =>
  planProcess({ argv, environment, ...more })(signal);

/** Flags of a plugin that runs the code when it is imported. */
async function pluginWith(folder: string, code: string): Promise<readonly string[]> {
  await mkdir(join(folder, "noisy"));
  await writeFile(
    join(folder, "noisy", "plugin.ts"),
    `import { defineController } from "cloud-controller-host/sdk";
${code}
export default defineController({ name: "noisy-controller", construct: () => () => ({ run: async () => undefined }) });`,
  );
  return [...argv, "--controllers=cloud-node-controller", `--plugin-dir=${folder}`];
}

describe("a plan in a process of its own", () => {
  test("is the document of plan --output=json, for the flags of the host", async () => {
    const { plan: made } = JSON.parse(await plan());
    expect(Value.Check(planSchema, made)).toBe(true);
    expect([made.complete, made.changes]).toEqual([true, []]);
    expect(made.skippedControllers).toContain("node-route-controller: --configure-cloud-routes is false");
  });

  test("fails with all that is wrong, in the words of the command", async () => {
    const failure = plan({ argv: [...argv, "--controllers=none-such", "--node-sync-period=x"] });
    const reason = await failure.catch((error: unknown) => messageOf(error));
    expect(reason).toMatch(/none-such|node-sync-period/u);
    expect(reason).not.toContain("Error: ");
  });

  test("is not begun without the memory for it, which would end the host as well", async () => {
    const failure = plan({ memoryLeft: () => Promise.resolve(100 * 1024 * 1024) });
    expect(await failure.catch(String)).toMatch(/needs about \d+ MiB of memory, and 100 MiB are left/u);
  });

  test("ends at once with its signal", async () => {
    const stopping = new AbortController();
    const planning = plan({}, stopping.signal).catch(String);
    await Bun.sleep(300);
    const began = performance.now();
    stopping.abort();
    expect(await planning).toContain("SIGKILL");
    expect(performance.now() - began).toBeLessThan(5_000);
  });

  test("is found behind what plugins print", async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "plan-process-"));
    const flags = await pluginWith(folder.path, 'console.log("{}"); process.stdout.write("no line ends here");');
    const { plan: made } = JSON.parse(await plan({ argv: flags }));
    expect(Value.Check(planSchema, made)).toBe(true);
  });

  test("fails where what was printed is not a document", async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "plan-process-"));
    const flags = await pluginWith(folder.path, 'console.log("bye"); process.exit(0);');
    expect(await plan({ argv: flags }).catch(String)).toContain("planning ended with status 0");
  });

  test("ends with its signal, too, while a process that a plugin started holds its pipes", async () => {
    await using folder = await mkdtempDisposable(join(tmpdir(), "plan-process-"));
    const started = join(folder.path, "started");
    // The shell may end with the process that started it; what it started in turn does not.
    const script = `sleep 20 & echo $! > ${started}.new; mv ${started}.new ${started}; wait`;
    const code = `Bun.spawn(["sh", "-c", ${JSON.stringify(script)}], { stdio: ["ignore", "inherit", "inherit"] });
await Bun.sleep(60_000);`;
    const stopping = new AbortController();
    const planning = plan({ argv: await pluginWith(folder.path, code) }, stopping.signal).catch(String);
    while (!(await Bun.file(started).exists())) await Bun.sleep(50);
    const began = performance.now();
    stopping.abort();
    expect(await planning).toContain("a process that a plugin started has not ended");
    expect(performance.now() - began).toBeLessThan(10_000);
    process.kill(Number(await Bun.file(started).text()), "SIGKILL");
  });
});
