import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { ApiError, type ConfigMap, keyOf, kinds, type KubeClient } from "cloud-controller-host/sdk";
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
  rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], operations: ["CREATE", "UPDATE", "DELETE"] }],
  admit: ({ operation, userInfo, name, object, oldObject }) => ({
    allowed: operation !== "DELETE" || name !== "held",
    patch: [{ op: "add", path: "/data", value: { [operation]: oldObject ? userInfo.username : object.metadata.uid ?? userInfo.username } }],
  }),
});
`;
const validating = `
import { defineWebhook } from "cloud-controller-host/sdk";
export default defineWebhook({
  name: "keeper",
  path: "/keeper",
  rules: [
    { apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], operations: ["CREATE", "DELETE"] },
    { apiGroups: [""], apiVersions: ["v1"], resources: ["pods/eviction"], operations: ["CREATE"] },
  ],
  admit({ operation, kind, name, object, oldObject }) {
    const isKept = (oldObject ?? object).metadata.labels?.kept === "true" || name.startsWith("kept");
    const what = operation + " " + kind.kind + " " + name + " " + Object.keys(object?.data ?? {});
    return isKept ? { allowed: false, message: what } : { allowed: true, warnings: [what] };
  },
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
  await mkdir(join(folder, "keeper"));
  await writeFile(join(folder, "keeper/plugin.ts"), validating);
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

  test("an apply that creates its object is a creation for webhooks, and what they return keeps its owner", async () => {
    const place = { name: "applied", namespace: "default" };
    const applied = (labels: Readonly<Record<string, string>>): Promise<ConfigMap> =>
      user.patch(kinds.ConfigMap, place, "apply", {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: { ...place, labels },
      });
    expect(String(await errorOf(applied({ kept: "true" })))).toContain("CREATE ConfigMap applied CREATE");
    expect(sandbox.api.get(kinds.ConfigMap, place)).toBeUndefined();
    const created = await applied({ a: "1" });
    expect(created.data).toEqual({ CREATE: "admin" });
    expect(created.metadata?.managedFields).toMatchObject([{ manager: "test", operation: "Apply" }]);
    const changed = await applied({ b: "1" });
    expect([changed.data, changed.metadata?.labels]).toEqual([{ UPDATE: "admin" }, { b: "1" }]);
    expect(changed.metadata?.managedFields?.map(({ operation }) => operation)).toContain("Apply");
    await user.delete(kinds.ConfigMap, place);
  });

  test("asks a webhook about each object of a collection that is to be deleted, and deletes none that it denies", async () => {
    const create = (name: string, kept: string): void =>
      void sandbox.api.create(kinds.ConfigMap, { metadata: { name, namespace: "kube-public", labels: { kept } } });
    create("a", "false");
    create("b", "true");
    const refused = await errorOf(user.deleteCollection(kinds.ConfigMap, { namespace: "kube-public" }));
    expect(String(refused)).toContain("DELETE ConfigMap b");
    expect(sandbox.api.get(kinds.ConfigMap, { name: "b", namespace: "kube-public" })).toBeDefined();
    await user.deleteCollection(kinds.ConfigMap, { namespace: "kube-public", labelSelector: "kept=false" });
    expect(sandbox.api.list(kinds.ConfigMap, { namespace: "kube-public" }).map(keyOf)).toEqual(["kube-public/b"]);
  });

  test("a mutating webhook may deny a deletion, too", async () => {
    const place = { name: "held", namespace: "default" };
    await user.create(kinds.ConfigMap, { metadata: place });
    expect(String(await errorOf(user.delete(kinds.ConfigMap, place)))).toContain('"owner-label.');
    expect(sandbox.api.get(kinds.ConfigMap, place)).toBeDefined();
  });

  test("an eviction that a webhook denies deletes no Pod, and the webhook sees the Eviction", async () => {
    for (const name of ["kept", "free"]) {
      const spec = { containers: [{ name: "c", image: "i" }] };
      sandbox.api.create(kinds.Pod, { metadata: { name, namespace: "default" }, spec });
      const evicted = user.evict({ name, namespace: "default" });
      if (name === "kept") expect(String(await errorOf(evicted))).toContain("CREATE Eviction kept");
      else await evicted;
    }
    expect(sandbox.api.list(kinds.Pod, { namespace: "default" }).map(keyOf)).toEqual(["default/kept"]);
  });

  test("passes the warnings of webhooks on to the client", async () => {
    const reply = await fetch(`${sandbox.api.url}/api/v1/namespaces/default/configmaps`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${sandbox.api.tokens.of("admin")}`,
        "content-type": "application/json",
      },
      body: JSON.stringify({ metadata: { name: "warned" } }),
      tls: { ca: sandbox.api.ca },
    });
    expect([reply.status, reply.headers.get("warning")]).toEqual([201, '299 - "CREATE ConfigMap warned CREATE"']);
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
