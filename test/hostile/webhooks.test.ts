import { expect, setDefaultTimeout, test } from "bun:test";

import { freePort } from "../envtest/free-port.ts";
import { SandboxLab } from "../host/sandbox-lab.ts";
import { usageOf } from "../kit/process-usage.ts";

setDefaultTimeout(120_000);

const source = `import { defineWebhook } from "cloud-controller-host/sdk";
export default defineWebhook({
  name: "any",
  path: "/any",
  rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], operations: ["CREATE"] }],
  admit: () => ({ allowed: true }),
});
`;

const [depth, width] = [1_500_000, 149_000];
const bodies = {
  "deep arrays": `${"[".repeat(depth)}${"]".repeat(depth)}`,
  "a million empty objects": `[${"{},".repeat(1_000_000)}{}]`,
  "as many empty objects as are accepted": `[${"{},".repeat(width / 2)}${'"'.padEnd(2_500_000, "x")}"]`,
  "one text": `"${"x".repeat(3_000_000)}"`,
};
const review = (object: string): string =>
  `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":${object}}}`;

test("thirty webhook bodies of 3 MB at once keep the host below 512 MB, and a second client is answered within 3 s", async () => {
  await using lab = await SandboxLab.open();
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
  const send = (body: string): Promise<number> =>
    fetch(`https://127.0.0.1:${port}/any`, {
      method: "POST",
      keepalive: false,
      headers: { "content-type": "application/json" },
      body,
      tls: { rejectUnauthorized: false },
    }).then(
      ({ status }) => status,
      () => 0,
    );
  for (const [name, body] of Object.entries(bodies)) {
    const attack = Promise.all(Array.from({ length: 30 }, () => send(review(body))));
    const over = new AbortController();
    void attack.finally(() => over.abort());
    let [peakMB, slowestMs] = [0, 0];
    while (!over.signal.aborted) {
      const startedAt = performance.now();
      expect((await host.get("/livez", { keepalive: false })).status).toBe(200);
      slowestMs = Math.max(slowestMs, Math.round(performance.now() - startedAt));
      peakMB = Math.max(peakMB, Math.round((await usageOf(host.pid)).rssMB));
    }
    console.log(`${name}: ${JSON.stringify({ peakMB, slowestMs, statuses: [...new Set(await attack)] })}`);
    expect(peakMB).toBeLessThan(512);
    expect(slowestMs).toBeLessThan(3_000);
    expect(await send(review("{}"))).toBe(200);
  }
});
