import { expect, test } from "bun:test";

import { apiVersionOf, defineKind, kinds } from "cloud-controller-host/sdk";

import { apply, merge, type Reply } from "../api-client.ts";
import { describeProtocol } from "../on-both.ts";

const widget = defineKind({
  group: "protocol.example.com",
  version: "v1",
  kind: "Widget",
  plural: "widgets",
  namespaced: true,
});
const ingresses = defineKind({
  group: "networking.k8s.io",
  version: "v1",
  kind: "Ingress",
  plural: "ingresses",
  namespaced: true,
});
const apiVersion = apiVersionOf(widget);

describeProtocol(
  "a custom kind",
  (protocol) => {
    /** The path of a new widget. */
    const made = async (): Promise<string> => {
      const path = `/apis/${apiVersion}/namespaces/${await protocol.namespace()}/widgets`;
      const metadata = { name: "w", labels: { kept: "1" } };
      await protocol.api.done("POST", path, { apiVersion, kind: widget.kind, metadata, spec: { size: 1 } });
      return `${path}/w`;
    };

    test("a write of the status of a custom kind leaves labels, annotations and finalizers as they are", async () => {
      const path = await made();
      const metadata = { labels: { new: "1" }, annotations: { new: "1" }, finalizers: ["example.com/new"] };
      const patch = { metadata, spec: { size: 2 }, status: { ready: true } };
      const patched = await protocol.api.done("PATCH", `${path}/status`, patch, merge);
      expect(patched).toMatchObject({ spec: { size: 1 }, status: { ready: true } });
      expect(patched.metadata).toMatchObject({ labels: { kept: "1" } });
      for (const field of ["annotations", "finalizers"]) expect(patched.metadata).not.toHaveProperty(field);
      expect(patched.metadata.labels).toEqual({ kept: "1" });
      const replaced = await protocol.api.done("PUT", `${path}/status`, {
        ...patched,
        metadata: { ...patched.metadata, ...metadata },
        status: { ready: false },
      });
      expect(replaced.metadata.labels).toEqual({ kept: "1" });
      expect(replaced.status).toEqual({ ready: false });
    });

    test("a replacement of an object of a custom kind must carry a resourceVersion, also of its status", async () => {
      const path = await made();
      const bare = { apiVersion, kind: widget.kind, metadata: { name: "w" }, spec: { size: 2 } };
      for (const place of [path, `${path}/status`]) {
        const refused = await protocol.api.send("PUT", place, bare);
        expect([refused.status, refused.body.reason]).toEqual([422, "Invalid"]);
        expect(refused.body.message).toContain("metadata.resourceVersion");
      }
      const { metadata } = (await protocol.api.get(path)).body;
      const { resourceVersion } = metadata;
      const replaced = await protocol.api.done("PUT", path, { ...bare, metadata: { name: "w", resourceVersion } });
      expect(replaced.spec).toEqual({ size: 2 });
    });

    test("what is applied to the status of a custom kind leaves its labels alone, and does not own them", async () => {
      const path = await made();
      const config = {
        apiVersion,
        kind: widget.kind,
        metadata: { name: "w", labels: { new: "1" } },
        status: { ok: true },
      };
      const place = `${path}/status?fieldManager=me`;
      const { body } = await protocol.api.send("PATCH", place, config, { contentType: apply });
      expect([body.metadata.labels, body.status]).toEqual([{ kept: "1" }, { ok: true }]);
      const own = body.metadata.managedFields?.find(({ manager }) => manager === "me");
      expect(Object.keys(own?.fieldsV1 ?? {})).toEqual(["f:status"]);
    });

    test("each manager applies fields of its own of a custom kind, and a list as a whole", async () => {
      const path = await made();
      const applied = async (manager: string, spec: object): Promise<unknown> => {
        const config = { apiVersion, kind: widget.kind, metadata: { name: "w" }, spec };
        const place = `${path}?fieldManager=${manager}&force=true`;
        return (await protocol.api.send("PATCH", place, config, { contentType: apply })).body.spec;
      };
      await applied("a", { nested: { a: 1, both: 1 }, list: [1, 2] });
      expect(await applied("b", { nested: { b: 1, both: 2 }, list: [3] })).toEqual({
        size: 1,
        nested: { a: 1, b: 1, both: 2 },
        list: [3],
      });
      expect(await applied("a", {})).toEqual({ size: 1, nested: { b: 1, both: 2 }, list: [3] });
    });

    test("a patch of the status of a custom kind applies under another uid, and not under another resourceVersion", async () => {
      const path = await made();
      const patch = (metadata: object): Promise<Reply> =>
        protocol.api.send("PATCH", `${path}/status`, { metadata, status: { ready: true } }, { contentType: merge });
      expect((await patch({ resourceVersion: "1" })).body).toMatchObject({ code: 409, reason: "Conflict" });
      expect((await patch({ uid: "another" })).body.status).toEqual({ ready: true });
    });
  },
  [widget],
);

describeProtocol(
  "a kind of Kubernetes that a plugin declares",
  (protocol) => {
    test("a write of the status of a kind of Kubernetes changes its metadata as well, and a replacement needs no resourceVersion", async () => {
      const path = `/apis/networking.k8s.io/v1/namespaces/${await protocol.namespace()}/ingresses`;
      const object = {
        metadata: { name: "i" },
        spec: { defaultBackend: { service: { name: "s", port: { number: 80 } } } },
      };
      await protocol.api.done("POST", path, object);
      const status = { loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } };
      const patch = { metadata: { annotations: { a: "1" } }, status };
      const patched = await protocol.api.done("PATCH", `${path}/i/status`, patch, merge);
      expect(patched).toMatchObject({ metadata: { annotations: { a: "1" } }, status });
      expect((await protocol.api.send("PUT", `${path}/i`, object)).status).toBe(200);
      const deployments = path.replace("networking.k8s.io", "apps").replace("ingresses", "deployments");
      const labels = { app: "a" };
      const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "i" }] } };
      const deployment = { metadata: { name: "d" }, spec: { selector: { matchLabels: labels }, template } };
      await protocol.api.done("POST", deployments, deployment);
      expect((await protocol.api.send("PUT", `${deployments}/d`, deployment)).status).toBe(200);
    });

    test("a replacement of a PodDisruptionBudget must carry a resourceVersion", async () => {
      const path = `/apis/policy/v1/namespaces/${await protocol.namespace()}/poddisruptionbudgets`;
      const budget = { metadata: { name: "b" }, spec: { maxUnavailable: 1, selector: {} } };
      await protocol.api.done("POST", path, budget);
      expect((await protocol.api.send("PUT", `${path}/b`, budget)).status).toBe(422);
    });
  },
  [ingresses, kinds.Deployment, kinds.PodDisruptionBudget],
);
