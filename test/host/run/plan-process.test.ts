import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";

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
    expect(await failure.catch(String)).toMatch(/needs some \d+ MiB of memory, and 100 MiB are left/u);
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
});
