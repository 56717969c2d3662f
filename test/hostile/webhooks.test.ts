import { expect, setDefaultTimeout, test } from "bun:test";

import { freePort } from "../envtest/free-port.ts";
import { SandboxLab } from "../host/sandbox-lab.ts";
import type { HostProcess } from "../kit/host-process.ts";

setDefaultTimeout(120_000);

const source = `import { defineWebhook } from "cloud-controller-host/sdk";
export default defineWebhook({
  name: "any",
  path: "/any",
  rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], operations: ["CREATE"] }],
  async admit({ name, object }) {
    if (name === "hangs") await new Promise(() => {});
    return { allowed: ({}).polluted === undefined && object?.polluted === undefined };
  },
});
`;

const review = (object: string): string =>
  `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":${object}}}`;

interface Served extends AsyncDisposable {
  readonly host: HostProcess;
  /** The status of the reply; 0 when the connection was cut. */
  readonly send: (body: string, path?: string) => Promise<number>;
}

async function open(): Promise<Served> {
  await using opening = new AsyncDisposableStack();
  const lab = opening.use(await SandboxLab.open());
  const port = freePort();
  const host = lab.start({
    flags: [
      await lab.plugin("any", source),
      "--webhooks=*",
      "--feature-gates=CloudControllerManagerWebhook=true",
      "--webhook-bind-address=127.0.0.1",
      `--webhook-secure-port=${port}`,
    ],
  });
  await host.until("it leads", ({ running }) => running);
  const send = (body: string, path = "/any"): Promise<number> =>
    fetch(`https://127.0.0.1:${port}${path}`, {
      method: "POST",
      keepalive: false,
      headers: { "content-type": "application/json" },
      body,
      tls: { rejectUnauthorized: false },
    }).then(
      ({ status }) => status,
      () => 0,
    );
  const stack = opening.move();
  return { host, send, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

test("odd webhook requests are rejected, and sixty whose plugin hangs delay no probe", async () => {
  await using served = await open();
  const { host, send } = served;
  const oddities: readonly (readonly [body: string, status: number, path?: string])[] = [
    [review(`"${"x".repeat(10_000_000)}"`), 413],
    [review("{}").replace('"u"', '{"x":1}'), 400],
    [review("{}").replace('"u"', '""'), 400],
    [review("{}").replace("/v1", "/v1beta1"), 400],
    ["null", 400],
    ["[]", 400],
    ["{{{", 400],
    [review("{}"), 404, "/x/../other"],
    [review("{}"), 404, "/any%2f"],
    [review('{"__proto__":{"polluted":1}}').replace('"uid"', '"__proto__":{"polluted":1},"uid"'), 200],
  ];
  for (const [body, status, path] of oddities)
    expect([body.slice(0, 60), await send(body, path)]).toEqual([body.slice(0, 60), status]);
  const hanging = Array.from({ length: 60 }, () => send(review('{},"name":"hangs"'), "/any?timeout=3s"));
  for (let i = 0; i < 10; i++) {
    const startedAt = performance.now();
    expect((await host.get("/livez", { keepalive: false })).status).toBe(200);
    expect(performance.now() - startedAt).toBeLessThan(1_000);
  }
  await Promise.all(hanging);
  expect(await send(review("{}"))).toBe(200);
});
