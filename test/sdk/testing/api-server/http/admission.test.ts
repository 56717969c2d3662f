import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { ApiError, kinds, type KubeClient } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { loadApiServer } from "../../../../../host/kube/connection/api-server.ts";
import { createClient } from "../../../../../host/kube/connection/client.ts";
import { createTransport } from "../../../../../host/kube/connection/transport.ts";
import { openSandbox, type Sandbox } from "../../../../../host/sandbox-host.ts";
import { errorOf } from "../../../../kit/rejection.ts";

setDefaultTimeout(120_000);

const examples = join(import.meta.dir, "../../../../../sdk/examples");
const mutating = `
import { defineWebhook } from "cloud-controller-host/sdk";
export default defineWebhook({
  name: "owner-label",
  path: "/owner-label",
  type: "mutating",
  rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], operations: ["CREATE", "UPDATE"] }],
  admit: ({ operation, userInfo }) => ({
    allowed: true,
    patch: [{ op: "add", path: "/data", value: { [operation]: userInfo.username } }],
  }),
});
`;

let folder = "";
let sandbox: Sandbox;
let user: KubeClient;
const transports: { close(): void }[] = [];
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "admission-"));
  await mkdir(join(folder, "owner-label"));
  await writeFile(join(folder, "owner-label/plugin.ts"), mutating);
  sandbox = await openSandbox({
    nodes: 0,
    flags: [
      `--plugin-dir=${examples}`,
      `--plugin-dir=${folder}`,
      "--controllers=cloud-node",
      "--secure-port=0",
      "--webhooks=*",
      "--feature-gates=CloudControllerManagerWebhook=true",
    ],
  });
  await eventually("the first generation runs", () => sandbox.host.status.running, 30_000);
  const transport = createTransport(await loadApiServer({ kubeconfig: sandbox.files.kubeconfig }), {
    userAgent: "test",
    qps: -1,
  });
  transports.push(transport);
  user = createClient(transport);
});
afterAll(async () => {
  for (const transport of transports) transport.close();
  await sandbox[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

const service = (name: string, annotations: Readonly<Record<string, string>> = {}) => ({
  metadata: { name, namespace: "default", annotations },
  spec: { type: "LoadBalancer", ports: [{ port: 80 }] },
});

describe("the sandbox's API server", () => {
  test("calls a validating webhook: what it denies is refused with its name and message, and not stored", async () => {
    const error = await errorOf(user.create(kinds.Service, service("public")));
    expect(error).toBeInstanceOf(ApiError);
    expect(String(error)).toContain('admission webhook "internal-load-balancers.cloud-controller-host.sandbox" denied');
    expect(sandbox.api.get(kinds.Service, { name: "public", namespace: "default" })).toBeUndefined();
    const internal = { "service.beta.kubernetes.io/azure-load-balancer-internal": "true" };
    await user.create(kinds.Service, service("internal", internal));
    expect(sandbox.api.get(kinds.Service, { name: "internal", namespace: "default" })).toBeDefined();
  });

  test("stores what a mutating webhook returns, for a creation and for a patch, with the user in the request", async () => {
    const place = { name: "owned", namespace: "default" };
    const created = await user.create(kinds.ConfigMap, { metadata: place, data: { a: "1" } });
    expect(created.data).toEqual({ CREATE: "admin" });
    const patched = await user.patch(kinds.ConfigMap, place, "merge", { data: { b: "2" } });
    expect(patched.data).toEqual({ UPDATE: "admin" });
    expect(sandbox.api.get(kinds.ConfigMap, place)?.data).toEqual({ UPDATE: "admin" });
    expect(patched.metadata?.uid).toBe(created.metadata?.uid);
    await user.delete(kinds.ConfigMap, place);
  });

  test("answers a write that is invalid as it would without webhooks", async () => {
    const invalid = errorOf(user.create(kinds.ConfigMap, { metadata: { name: "Not_A_Name", namespace: "default" } }));
    expect(await invalid).toMatchObject({ status: 422 });
  });

  test("refuses a write whose webhook does not answer", async () => {
    const before = sandbox.api.webhooks;
    sandbox.api.webhooks = before.map((webhook) => ({ ...webhook, url: "https://127.0.0.1:9/none" }));
    try {
      const error = await errorOf(user.create(kinds.ConfigMap, { metadata: { name: "x", namespace: "default" } }));
      expect(error).toMatchObject({ status: 500 });
      expect(String(error)).toContain('failed calling webhook "owner-label.cloud-controller-host.sandbox"');
    } finally {
      sandbox.api.webhooks = before;
    }
  });
});
