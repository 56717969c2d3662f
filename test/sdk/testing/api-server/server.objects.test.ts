import { expect, test } from "bun:test";

import { apply, jsonPatch, merge, strategic } from "./api-client.ts";
import { describeProtocol } from "./on-both.ts";

const nodes = "/api/v1/nodes";

describeProtocol("writing objects", (protocol) => {
  const newNode = async (fields: object = {}): Promise<string> => {
    const name = protocol.name("node");
    await protocol.api.done("POST", nodes, { metadata: { name }, ...fields });
    return `${nodes}/${name}`;
  };

  test("creating an object returns 201 with its uid, resourceVersion and creation time", async () => {
    const name = protocol.name("node");
    const sent = { metadata: { name, uid: "mine", deletionTimestamp: "2020-01-01T00:00:00Z" } };
    const { status, body } = await protocol.api.send("POST", nodes, sent);
    expect(status).toBe(201);
    expect(body).toMatchObject({ kind: "Node", apiVersion: "v1", metadata: { name } });
    expect(body.metadata.uid).toMatch(/^[0-9a-f-]{36}$/);
    expect(body.metadata.creationTimestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    expect(Number(body.metadata.resourceVersion)).toBeGreaterThan(0);
    expect(body.metadata.deletionTimestamp).toBeUndefined();
    expect((await protocol.api.get(`${nodes}/${name}`)).body).toEqual(body);
  });

  test("a name is generated from generateName", async () => {
    const namespace = await protocol.namespace();
    const path = `/api/v1/namespaces/${namespace}/configmaps`;
    const one = await protocol.api.done("POST", path, { metadata: { generateName: "a-" } });
    const other = await protocol.api.done("POST", path, { metadata: { generateName: "a-" } });
    expect(one.metadata.name).toMatch(/^a-[a-z0-9]{5}$/);
    expect(other.metadata.name).not.toBe(one.metadata.name ?? "");
  });

  test("an existing name is a 409 AlreadyExists", async () => {
    const path = await newNode();
    const { status, body } = await protocol.api.send("POST", nodes, {
      metadata: { name: path.slice(nodes.length + 1) },
    });
    expect(status).toBe(409);
    expect(body).toMatchObject({ kind: "Status", status: "Failure", reason: "AlreadyExists", code: 409 });
    expect(body).toMatchObject({ details: { kind: "nodes", name: path.slice(nodes.length + 1) } });
  });

  test("a node keeps the status that it registers with, with empty fields filled in", async () => {
    const path = await newNode({ status: { addresses: [{ type: "Hostname", address: "h" }] } });
    const { status, spec } = (await protocol.api.get(path)).body;
    expect(spec).toEqual({});
    expect(status).toMatchObject({
      addresses: [{ type: "Hostname", address: "h" }],
      daemonEndpoints: { kubeletEndpoint: { Port: 0 } },
      nodeInfo: { kubeletVersion: "" },
    });
  });

  test("an update with an old resourceVersion is a 409 Conflict and changes nothing", async () => {
    const path = await newNode();
    const first = (await protocol.api.get(path)).body;
    await protocol.api.done("PATCH", path, { metadata: { labels: { a: "1" } } }, merge);
    const { status, body } = await protocol.api.send("PUT", path, { ...first, spec: { providerID: "x" } });
    expect(status).toBe(409);
    expect(body).toMatchObject({ reason: "Conflict", details: { kind: "nodes" } });
    expect((await protocol.api.get(path)).body.spec).toEqual({});
  });

  test("an update without a resourceVersion wins, except for a lease, which must carry one", async () => {
    const path = await newNode();
    const name = path.slice(nodes.length + 1);
    expect((await protocol.api.send("PUT", path, { metadata: { name }, spec: { providerID: "x" } })).status).toBe(200);

    const leases = `/apis/coordination.k8s.io/v1/namespaces/${await protocol.namespace()}/leases`;
    const lease = { metadata: { name: "l" }, spec: { holderIdentity: "me" } };
    expect((await protocol.api.send("PUT", `${leases}/l`, lease)).status).toBe(201);
    expect((await protocol.api.send("PUT", `${leases}/l`, lease)).body).toMatchObject({ reason: "Invalid", code: 422 });
  });

  test("a write that changes nothing leaves the resourceVersion alone", async () => {
    const path = await newNode({ metadata: undefined, spec: undefined }).catch(() => newNode());
    const before = (await protocol.api.get(path)).body;
    expect((await protocol.api.send("PUT", path, before)).body).toEqual(before);
    const patches = [
      { type: merge, body: { metadata: { labels: null }, spec: { unschedulable: false } } },
      { type: strategic, body: { spec: { taints: [] } } },
      { type: jsonPatch, body: [] },
    ];
    for (const { type, body } of patches) {
      const { metadata } = await protocol.api.done("PATCH", path, body, type);
      expect(metadata.resourceVersion).toBe(before.metadata.resourceVersion ?? "");
    }
  });

  test("the status is written only at /status, and all other fields only at the main resource", async () => {
    const path = await newNode();
    const both = { spec: { providerID: "x" }, status: { phase: "Running" }, metadata: { labels: { a: "1" } } };
    const main = await protocol.api.done("PATCH", path, both, merge);
    expect(main.spec).toEqual({ providerID: "x" });
    expect(main.status).not.toHaveProperty("phase");
    const status = await protocol.api.done(
      "PATCH",
      `${path}/status`,
      {
        spec: { providerID: "y" },
        status: { phase: "Running" },
        metadata: { labels: { b: "2" }, annotations: { c: "3" } },
      },
      merge,
    );
    expect(status.spec).toEqual({ providerID: "x" });
    expect(status.status).toMatchObject({ phase: "Running" });
    expect(status.metadata).toMatchObject({ labels: { a: "1", b: "2" }, annotations: { c: "3" } });
    expect((await protocol.api.get(`${path}/status`)).body).toEqual(status);
  });

  test("a kind without a status has no /status, nor has any kind a part of another name, to read or to write", async () => {
    const path = `/api/v1/namespaces/${await protocol.namespace()}/configmaps`;
    await protocol.api.done("POST", path, { metadata: { name: "c" } });
    const config = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "c" }, data: { a: "1" } };
    const node = await newNode();
    for (const place of [`${path}/c/status`, `${path}/c/data`, `${node}/spec`, `${node}/finalize`]) {
      const replies = [
        await protocol.api.get(place),
        await protocol.api.send("PUT", place, config),
        await protocol.api.send("PATCH", place, { data: { a: "1" } }, { contentType: merge }),
        await protocol.api.send("PATCH", `${place}?fieldManager=me`, config, { contentType: apply }),
      ];
      expect([place, ...replies.map(({ status }) => status)]).toEqual([place, 404, 404, 404, 404]);
    }
    expect((await protocol.api.get(`${path}/c`)).body.data).toBeUndefined();
    const name = await protocol.namespace();
    const finalized = { metadata: { name }, spec: { finalizers: ["kubernetes"] } };
    expect((await protocol.api.send("PUT", `/api/v1/namespaces/${name}/finalize`, finalized)).status).toBe(200);
  });

  test("strategic merge uses the merge keys of the kind", async () => {
    const condition = (type: string, status: string): object => ({ type, status, reason: "R", message: "m" });
    const path = await newNode({
      spec: { taints: [{ key: "a", effect: "NoSchedule" }], podCIDRs: ["10.1.0.0/24"], podCIDR: "10.1.0.0/24" },
      status: { conditions: [condition("Ready", "True"), condition("Full", "False")] },
    });
    const spec = { taints: [{ key: "b", effect: "NoExecute" }] };
    expect((await protocol.api.done("PATCH", path, { spec }, strategic)).spec).toMatchObject(spec);
    const { status } = await protocol.api.done(
      "PATCH",
      `${path}/status`,
      {
        status: {
          $setElementOrder: undefined,
          conditions: [condition("Ready", "Unknown"), { $patch: "delete", type: "Full" }],
        },
      },
      strategic,
    );
    expect(status).toMatchObject({ conditions: [{ type: "Ready", status: "Unknown", reason: "R" }] });
  });

  test("a JSON patch tests before it writes, and is applied atomically", async () => {
    const path = await newNode({ metadata: undefined }).catch(() => newNode({ spec: { providerID: "x" } }));
    const patch = (from: string): object[] => [
      { op: "add", path: "/metadata/labels", value: { "a/b": "1" } },
      { op: "replace", path: "/metadata/labels/a~1b", value: "2" },
      { op: "test", path: "/spec/providerID", value: from },
    ];
    const refused = await protocol.api.send("PATCH", path, patch("y"), { contentType: jsonPatch });
    expect(refused.status).toBe(422);
    expect((await protocol.api.get(path)).body.metadata.labels).toBeUndefined();
    expect((await protocol.api.done("PATCH", path, patch("x"), jsonPatch)).metadata.labels).toEqual({ "a/b": "2" });
  });

  test("a patch that names an old resourceVersion is a 409 Conflict, one that names another uid is invalid", async () => {
    const path = await newNode();
    const old = (await protocol.api.get(path)).body.metadata.resourceVersion;
    await protocol.api.done("PATCH", path, { metadata: { labels: { a: "1" } } }, merge);
    const patch = async (metadata: object): Promise<number> =>
      (await protocol.api.send("PATCH", path, { metadata }, { contentType: merge })).status;
    expect(await patch({ resourceVersion: old, labels: { a: "2" } })).toBe(409);
    expect(await patch({ uid: "11111111-1111-1111-1111-111111111111" })).toBe(422);
  });

  test("an update cannot change the name, uid, creation or deletion time, or generation", async () => {
    const path = await newNode();
    const before = (await protocol.api.get(path)).body;
    const put = async (metadata: object): Promise<readonly [number, string | undefined]> => {
      const { status, body } = await protocol.api.send("PUT", path, {
        ...before,
        metadata: { ...before.metadata, ...metadata },
      });
      return [status, body.reason];
    };
    expect(await put({ name: "other" })).toEqual([400, "BadRequest"]);
    expect(await put({ uid: "other" })).toEqual([409, "Conflict"]);
    const time = "2020-01-01T00:00:00Z";
    expect(await put({ deletionTimestamp: time })).toEqual([422, "Invalid"]);
    expect((await put({ creationTimestamp: time, generation: 9 }))[0]).toBe(200);
    expect((await protocol.api.get(path)).body).toEqual(before);
  });

  test("a dry run returns the result and writes nothing", async () => {
    const name = protocol.name("node");
    const created = await protocol.api.send("POST", `${nodes}?dryRun=All`, { metadata: { name } });
    expect(created.status).toBe(201);
    expect((await protocol.api.get(`${nodes}/${name}`)).status).toBe(404);
    const path = await newNode();
    const patched = await protocol.api.done("PATCH", `${path}?dryRun=All`, { spec: { unschedulable: true } }, merge);
    expect(patched.spec).toEqual({ unschedulable: true });
    expect((await protocol.api.send("DELETE", `${path}?dryRun=All`)).status).toBe(200);
    expect((await protocol.api.get(path)).body.spec).toEqual({});
  });

  test("unknown fields are dropped, warned of or rejected, by the fieldValidation parameter", async () => {
    const path = await newNode();
    const patch = (query: string): ReturnType<typeof protocol.api.send> =>
      protocol.api.send("PATCH", path + query, { spec: { foo: 1 } }, { contentType: merge });
    const warned = await patch("");
    expect(warned.body.spec).toEqual({});
    expect(warned.headers.get("warning")).toContain("spec.foo");
    expect((await patch("?fieldValidation=Ignore")).headers.get("warning")).toBeNull();
    const named = await protocol.api.send(
      "PATCH",
      await newNode(),
      { spec: { "größe→": "x" } },
      { contentType: merge },
    );
    expect(named.status).toBe(200);
    expect(Buffer.from(named.headers.get("warning") ?? "", "latin1").toString()).toContain("spec.größe→");
    const refused = await patch("?fieldValidation=Strict");
    expect(refused.body.message).toContain("spec.foo");
    expect(refused.status).toBeOneOf([400, 422]);
  });

  test("a deleted object with finalizers stays until they are removed, and accepts no new ones", async () => {
    const namespace = await protocol.namespace();
    const path = `/api/v1/namespaces/${namespace}/configmaps`;
    await protocol.api.done("POST", path, { metadata: { name: "c", finalizers: ["a.b/c"] } });
    const marked = await protocol.api.done("DELETE", `${path}/c`);
    expect(marked.metadata.deletionTimestamp).toMatch(/Z$/);
    expect(marked.metadata.deletionGracePeriodSeconds).toBe(0);
    const again = await protocol.api.done("DELETE", `${path}/c`);
    expect(again.metadata.resourceVersion).toBe(marked.metadata.resourceVersion ?? "");
    const more = { metadata: { finalizers: ["a.b/c", "a.b/d"] } };
    expect((await protocol.api.send("PATCH", `${path}/c`, more, { contentType: merge })).status).toBe(422);
    const freed = await protocol.api.done("PATCH", `${path}/c`, { metadata: { finalizers: null } }, merge);
    expect(freed.metadata.finalizers).toBeUndefined();
    expect((await protocol.api.get(`${path}/c`)).status).toBe(404);
  });

  test("a delete with a failed precondition is a 409", async () => {
    const path = await newNode();
    const { uid, resourceVersion } = (await protocol.api.get(path)).body.metadata;
    for (const preconditions of [{ uid: "other" }, { resourceVersion: "1" }]) {
      const { status, body } = await protocol.api.send("DELETE", path, { preconditions });
      expect(status).toBe(409);
      expect(body.reason).toBe("Conflict");
    }
    const deleted = await protocol.api.done("DELETE", path, { preconditions: { uid, resourceVersion } });
    expect(deleted).toMatchObject({ kind: "Status", status: "Success", details: { kind: "nodes", uid } });
    expect((await protocol.api.send("DELETE", path)).status).toBe(404);
  });

  test("a collection is deleted by label selector", async () => {
    const namespace = await protocol.namespace();
    const path = `/api/v1/namespaces/${namespace}/configmaps`;
    for (const [name, a] of Object.entries({ one: "1", two: "2", three: "1" }))
      await protocol.api.done("POST", path, { metadata: { name, labels: { a } } });
    await protocol.api.done("DELETE", `${path}?labelSelector=a%3D1`);
    const left = (await protocol.api.get(path)).body.items.map(({ metadata }) => metadata.name);
    expect(left).toEqual(["two"]);
  });

  test("times are stored in UTC: to the second in a condition, to the microsecond in a lease", async () => {
    const leases = `/apis/coordination.k8s.io/v1/namespaces/${await protocol.namespace()}/leases`;
    const lease = await protocol.api.done("POST", leases, {
      metadata: { name: "l" },
      spec: { renewTime: "2026-01-02T03:04:05.678901+01:00" },
    });
    expect(lease.spec).toEqual({ renewTime: "2026-01-02T02:04:05.678901Z" });
    const taint = { key: "a", effect: "NoSchedule", timeAdded: "2026-01-02T03:04:05.678+01:00" };
    const { body } = await protocol.api.get(await newNode({ spec: { taints: [taint] } }));
    expect(body.spec).toEqual({ taints: [{ ...taint, timeAdded: "2026-01-02T02:04:05Z" }] });
  });

  test("a malformed microsecond time is a 400", async () => {
    const leases = `/apis/coordination.k8s.io/v1/namespaces/${await protocol.namespace()}/leases`;
    for (const renewTime of ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678Z", "now"]) {
      const { status } = await protocol.api.send("POST", leases, { metadata: { name: "l" }, spec: { renewTime } });
      expect(status).toBe(400);
    }
  });

  test("the generation of an endpoint slice increases with changes of its labels and of its endpoints", async () => {
    const slices = `/apis/discovery.k8s.io/v1/namespaces/${await protocol.namespace()}/endpointslices`;
    const slice = { metadata: { name: "s" }, addressType: "IPv4", endpoints: [], ports: [{ port: 80 }] };
    const created = await protocol.api.done("POST", slices, slice);
    expect(created.metadata.generation).toBe(1);
    expect(created).toMatchObject({ ports: [{ name: "", port: 80, protocol: "TCP" }] });
    const labeled = await protocol.api.done("PATCH", `${slices}/s`, { metadata: { labels: { a: "b" } } }, merge);
    const changed = await protocol.api.done(
      "PATCH",
      `${slices}/s`,
      { endpoints: [{ addresses: ["10.1.2.3"] }] },
      merge,
    );
    const annotated = await protocol.api.done("PATCH", `${slices}/s`, { metadata: { annotations: { a: "b" } } }, merge);
    const generations = [labeled, changed, annotated].map(({ metadata }) => metadata.generation);
    expect(generations).toEqual([2, 3, 3]);
  });

  test("the stringData of a secret is stored as base64 data", async () => {
    const secrets = `/api/v1/namespaces/${await protocol.namespace()}/secrets`;
    const secret = await protocol.api.done("POST", secrets, { metadata: { name: "s" }, stringData: { a: "b" } });
    expect(secret).toMatchObject({ type: "Opaque", data: { a: btoa("b") } });
    expect(secret).not.toHaveProperty("stringData");
  });
});
