import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

import { freePort } from "../../envtest/free-port.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

const gate = "--feature-gates=CloudControllerManagerWebhook=true";

/** A webhook that denies every object whose name is the given one. */
const source = (denied: string): string => `import { defineWebhook } from "cloud-controller-host/sdk";
export default defineWebhook({
  name: "name-check",
  path: "/name-check",
  rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], operations: ["CREATE"] }],
  async admit({ name }, { signal }) {
    if (name === "slow") await new Promise((resolve) => setTimeout(resolve, 30_000));
    if (name === "broken") throw new Error("admit failed");
    return name === "${denied}" ? { allowed: false, message: "denied by the test" } : { allowed: true };
  },
});
`;

const review = (name: string): object => ({
  apiVersion: "admission.k8s.io/v1",
  kind: "AdmissionReview",
  request: { uid: "u-1", name, operation: "CREATE", object: { metadata: { name } } },
});

async function open(flags: readonly string[] = []) {
  await using opening = new AsyncDisposableStack();
  const lab = opening.use(await SandboxLab.open());
  const pluginDir = await lab.plugin("name-check", source("bad"));
  const certificates = join(lab.azure.folder, "webhook-certificates");
  const port = freePort();
  const host = lab.start({
    flags: [
      pluginDir,
      "--webhooks=*",
      gate,
      "--webhook-bind-address=127.0.0.1",
      `--webhook-secure-port=${port}`,
      `--webhook-cert-dir=${certificates}`,
      ...flags,
    ],
  });
  const url = `https://127.0.0.1:${port}`;
  const send = async (path: string, body: unknown, contentType = "application/json") => {
    const ca = await readFile(join(certificates, "cloud-controller-manager-webhook.crt"), "utf8");
    const reply = await fetch(url + path, {
      method: "POST",
      headers: { "content-type": contentType },
      body: typeof body === "string" ? body : JSON.stringify(body),
      tls: { ca },
    });
    return { status: reply.status, text: await reply.text() };
  };
  await eventually(
    "the webhook is served",
    async () => (await send("/name-check", review("a"))).status === 200,
    40_000,
  );
  const stack = opening.move();
  return { lab, host, send, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

describe("refuses at startup", () => {
  test.each([
    [
      "an unknown webhook",
      ["--webhooks=node-hook"],
      '--webhooks: "node-hook" is not known; no webhook plugin is available',
    ],
    [
      "a port that is --secure-port",
      ["--webhooks=*", "--secure-port=7777", "--webhook-secure-port=7777"],
      "use different ports",
    ],
  ])("%s", async (_, flags, problem) => {
    await using lab = await SandboxLab.open();
    const host = lab.start({ flags });
    expect(await host.ended()).toBe(1);
    expect(host.stderr).toContain(problem);
  });

  test("an enabled webhook with port 0, at which upstream panics", async () => {
    await using lab = await SandboxLab.open();
    const host = lab.start({
      flags: [await lab.plugin("name-check", source("bad")), "--webhooks=name-check", "--webhook-secure-port=0"],
    });
    expect(await host.ended()).toBe(1);
    expect(host.stderr).toContain("--webhook-secure-port cannot be 0 when a webhook is enabled");
  });
});

test("accepts webhook flags that enable nothing, as manifests set them", async () => {
  await using lab = await SandboxLab.open();
  const host = lab.start({
    flags: [
      "--webhook-secure-port=10260",
      "--webhook-bind-address=127.0.0.1",
      "--webhooks=",
      "--webhook-cert-dir=/nowhere",
    ],
  });
  await host.until("it runs", ({ running }) => running);
  expect(await host.stop()).toBe(0);
});

test("serves no webhook while the feature gate is off, and logs it", async () => {
  await using lab = await SandboxLab.open();
  const port = freePort();
  const host = lab.start({
    flags: [await lab.plugin("name-check", source("bad")), "--webhooks=*", `--webhook-secure-port=${port}`],
  });
  await host.until("it runs", ({ running }) => running);
  expect(host.lines("the feature gate CloudControllerManagerWebhook is off")).toHaveLength(1);
  await expect(fetch(`https://127.0.0.1:${port}/name-check`, { tls: { rejectUnauthorized: false } })).rejects.toThrow();
});

test("answers reviews with upstream's status codes and counts every reply", async () => {
  await using served = await open();
  const { send, host } = served;
  const allowed = await send("/name-check", review("good"));
  expect([allowed.status, JSON.parse(allowed.text)]).toEqual([
    200,
    { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview", response: { uid: "u-1", allowed: true } },
  ]);
  const denied = await send("/name-check", review("bad"));
  expect(JSON.parse(denied.text).response).toEqual({
    uid: "u-1",
    allowed: false,
    status: { code: 403, message: "denied by the test" },
  });
  expect(await send("/name-check", review("broken"))).toEqual({
    status: 500,
    text: "the webhook failed; see the log\n",
  });
  expect((await send("/name-check?timeout=1s", review("slow"))).status).toBe(500);
  expect((await send("/other", review("good"))).status).toBe(404);
  for (const [body, contentType] of [
    [review("good"), "application/json; charset=utf-8"],
    ["", "application/json"],
    ["{", "application/json"],
    ["null", "application/json"],
    [{ ...review("good"), apiVersion: "admission.k8s.io/v1beta1" }, "application/json"],
    [{ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview" }, "application/json"],
  ] as const)
    expect([body, (await send("/name-check", body, contentType)).status]).toEqual([body, 400]);
  const metrics = await (await host.get("/metrics")).text();
  expect(metrics).toMatch(/cloud_provider_webhook_request_total\{code="400",webhook="name-check"\} 6/u);
  expect(metrics).toMatch(/cloud_provider_webhook_request_total\{code="500",webhook="name-check"\} 2/u);
  expect(metrics).toMatch(
    /cloud_provider_webhook_request_duration_seconds_count\{code="200",webhook="name-check"\} \d/u,
  );
  expect(await host.stop()).toBe(0);
});

test("swaps a changed webhook in without refusing a request", async () => {
  await using served = await open();
  const { lab, host, send } = served;
  await host.until("it runs", ({ running }) => running);
  const statuses: number[] = [];
  const swapped = new AbortController();
  const traffic = (async () => {
    while (!swapped.signal.aborted) statuses.push((await send("/name-check", review("good"))).status);
  })();
  await lab.plugin("name-check", source("worse"));
  host.signal("SIGHUP");
  try {
    await eventually(
      "the new rule applies",
      async () => !JSON.parse((await send("/name-check", review("worse"))).text).response.allowed,
      40_000,
    );
  } finally {
    swapped.abort();
    await traffic;
  }
  expect(new Set(statuses)).toEqual(new Set([200]));
  expect(statuses.length).toBeGreaterThan(5);
});
