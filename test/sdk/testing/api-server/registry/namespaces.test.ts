import { expect, test } from "bun:test";

import { merge } from "../api-client.ts";
import { describeProtocol } from "../on-both.ts";

describeProtocol("namespaces", (protocol) => {
  test("a new cluster has the default namespaces", async () => {
    const { items } = (await protocol.api.get("/api/v1/namespaces")).body;
    const names = items.map(({ metadata }) => metadata.name);
    expect(names).toEqual(expect.arrayContaining(["default", "kube-node-lease", "kube-public", "kube-system"]));
  });

  test("a new namespace is active and labeled with its name", async () => {
    const name = await protocol.namespace();
    const { body } = await protocol.api.get(`/api/v1/namespaces/${name}`);
    expect(body.metadata.labels).toEqual({ "kubernetes.io/metadata.name": name });
    expect([body.spec, body.status]).toEqual([{ finalizers: ["kubernetes"] }, { phase: "Active" }]);
  });

  test("an update cannot remove the kubernetes finalizer", async () => {
    const path = `/api/v1/namespaces/${await protocol.namespace()}`;
    const patch = { spec: { finalizers: [] }, metadata: { annotations: { a: "b" } } };
    const { spec, metadata } = await protocol.api.done("PATCH", path, patch, merge);
    expect([spec, metadata.annotations]).toEqual([{ finalizers: ["kubernetes"] }, { a: "b" }]);
  });

  test("a terminating namespace rejects new objects", async () => {
    const path = `/api/v1/namespaces/${await protocol.namespace()}`;
    const configMap = { metadata: { name: "c", finalizers: ["a.b/c"] } };
    await protocol.api.done("POST", `${path}/configmaps`, configMap);
    const { metadata, status } = await protocol.api.done("DELETE", path);
    expect(metadata.deletionTimestamp).toBeDefined();
    expect(status).toMatchObject({ phase: "Terminating" });
    const refused = await protocol.api.send("POST", `${path}/configmaps`, { metadata: { name: "d" } });
    expect(refused.status).toBe(403);
    expect(refused.body).toMatchObject({
      reason: "Forbidden",
      details: { causes: [{ reason: "NamespaceTerminating" }] },
    });
  });
});
