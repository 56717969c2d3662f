import { expect, test } from "bun:test";

import { defineWebhook, type WebhookPlugin } from "cloud-controller-host/sdk";

import { systemClock } from "../../../../host/async/clock.ts";
import { isWebhookEnabled } from "../../../../host/generation/plugins/enabled.ts";
import { createLogger } from "../../../../host/process/log/log.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { admissionHandler } from "../../../../host/process/webhooks/admission.ts";

const log = createLogger({ format: "json", verbosity: 0, write: () => undefined });
const handlerOf = (webhooks: () => readonly WebhookPlugin[] | undefined) =>
  admissionHandler({ webhooks, log, clock: systemClock, metrics: new MetricsRegistry().root });

const rules = [{ apiGroups: [""], apiVersions: ["v1"], resources: ["nodes"], operations: ["*"] }] as const;
const request = (object?: string): Request =>
  new Request("https://127.0.0.1:10260/w", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","object":${object ?? null}}}`,
  });

test("fails closed with 503 while no generation is ready", async () => {
  let webhooks: readonly WebhookPlugin[] | undefined;
  const handle = handlerOf(() => webhooks);
  expect((await handle(request())).status).toBe(503);
  webhooks = [defineWebhook({ name: "w", path: "/w", rules, admit: () => ({ allowed: true }) })];
  expect((await handle(request())).status).toBe(200);
});

test("refuses a body that is small as a text and large as objects with 400, and asks no webhook", async () => {
  const asked: unknown[] = [];
  const admit = (admission: unknown) => ({ allowed: asked.push(admission) > 0 });
  const handle = handlerOf(() => [defineWebhook({ name: "w", path: "/w", rules, admit })]);
  const reply = await handle(request(`${"[".repeat(100_000)}${"]".repeat(100_000)}`));
  expect([reply.status, await reply.text()]).toEqual([400, "the body is refused: it is nested more than 1000 deep\n"]);
  expect(asked).toEqual([]);
  expect((await handle(request("{}"))).status).toBe(200);
});

test("encodes the patch of a mutating webhook and refuses one of a validating webhook", async () => {
  const patch = [{ op: "add", path: "/metadata/labels", value: { a: "b" } }] as const;
  const of = (type: "mutating" | "validating") =>
    handlerOf(() => [defineWebhook({ name: "w", path: "/w", type, rules, admit: () => ({ allowed: true, patch }) })]);
  const { response } = JSON.parse(await (await of("mutating")(request())).text());
  expect(response.patchType).toBe("JSONPatch");
  expect(JSON.parse(Buffer.from(response.patch, "base64").toString())).toEqual(patch);
  expect((await of("validating")(request())).status).toBe(500);
});

test.each(["name", "/a?b", "/a b", ""])("defineWebhook rejects the path %p", (path) => {
  expect(() => defineWebhook({ name: "w", path, rules, admit: () => ({ allowed: true }) })).toThrow("path");
});

test.each([
  [["w"], true],
  [["other"], false],
  [["-w"], false],
  [["-w", "*"], false],
  [["*"], true],
  [[], false],
])("a webhook called w is enabled by %p: %p", (list, enabled) => {
  expect(isWebhookEnabled("w", list)).toBe(enabled);
});

test("refuses large bodies that would wait too long for the ones before them, and serves the next ones again", async () => {
  const admit = () => ({ allowed: true });
  const handle = handlerOf(() => [defineWebhook({ name: "w", path: "/w", rules, admit })]);
  const large = (): Promise<Response> => handle(request(`"${"x".repeat(3_000_000)}"`));
  const statuses = (await Promise.all(Array.from({ length: 12 }, large))).map(({ status }) => status);
  const count = (wanted: number): number => statuses.filter((status) => status === wanted).length;
  // At 16 MiB per second, three begin within the half second that a body may wait; reading them takes time as well.
  expect(count(200)).toBeGreaterThanOrEqual(3);
  expect(count(503)).toBeGreaterThanOrEqual(4);
  expect(count(200) + count(503)).toBe(12);
  expect((await handle(request())).status).toBe(200);
});

test("answers a request whose time is over before its body is there with 500, though the webhook never ends", async () => {
  const signals: AbortSignal[] = [];
  const admit = (_: unknown, { signal }: { readonly signal: AbortSignal }): Promise<never> => {
    signals.push(signal);
    return new Promise(() => undefined);
  };
  const handle = handlerOf(() => [defineWebhook({ name: "w", path: "/w", rules, admit })]);
  const { url, method, headers, body } = request();
  const late = body?.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      async transform(chunk, controller) {
        await Bun.sleep(1_200);
        controller.enqueue(chunk);
      },
    }),
  );
  const reply = await handle(new Request(`${url}?timeout=1s`, { method, headers, body: late ?? null }));
  expect([reply.status, signals]).toEqual([500, []]);
});
