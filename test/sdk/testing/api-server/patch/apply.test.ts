import { expect, test } from "bun:test";

import { apply, merge, type Reply, strategic } from "../api-client.ts";
import { describeProtocol } from "../on-both.ts";

describeProtocol("server-side apply", (protocol) => {
  const configMap = async (): Promise<string> => `/api/v1/namespaces/${await protocol.namespace()}/configmaps/c`;
  const send = (path: string, manager: string, config: object, force = false): Promise<Reply> => {
    const body = { apiVersion: "v1", kind: "ConfigMap", ...config };
    return protocol.api.send("PATCH", `${path}?fieldManager=${manager}&force=${String(force)}`, body, {
      contentType: apply,
    });
  };
  const data = (values: object): object => ({ metadata: { name: "c" }, data: values });

  test("creates a missing object, and merges into an existing one", async () => {
    const path = await configMap();
    const created = await send(path, "me", data({ a: "1" }));
    expect([created.status, created.body.data]).toEqual([201, { a: "1" }]);
    await protocol.api.done("PATCH", path, { data: { other: "x" } }, merge);
    const again = await send(path, "me", data({ a: "2", b: "3" }));
    expect([again.status, again.body.data]).toEqual([200, { a: "2", b: "3", other: "x" }]);
  });

  test("removes fields that the manager no longer applies, and keeps those of other managers", async () => {
    const path = await configMap();
    await send(path, "me", data({ a: "1", b: "2", c: "3" }));
    await send(path, "you", data({ b: "2" }));
    expect((await send(path, "me", data({ c: "3" }))).body.data).toEqual({ b: "2", c: "3" });
  });

  test("applying the same configuration again changes nothing", async () => {
    const path = await configMap();
    const first = await send(path, "me", data({ a: "1" }));
    expect((await send(path, "me", data({ a: "1" }))).body).toEqual(first.body);
  });

  test("a different value for another manager's field is a conflict that names the manager, unless forced", async () => {
    const path = await configMap();
    await send(path, "me", data({ a: "1" }));
    const refused = await send(path, "you", data({ a: "2" }));
    expect(refused.status).toBe(409);
    expect(refused.body).toMatchObject({
      reason: "Conflict",
      details: { causes: [{ reason: "FieldManagerConflict", message: 'conflict with "me"', field: ".data.a" }] },
    });
    expect((await send(path, "you", data({ a: "2" }), true)).body.data).toEqual({ a: "2" });
    expect((await send(path, "me", data({ a: "1" }))).status).toBe(409);
  });

  test("a later update of an applied field moves its ownership to the writer", async () => {
    const path = await configMap();
    await send(path, "me", data({ a: "1", b: "1" }));
    await protocol.api.done("PATCH", `${path}?fieldManager=editor`, { data: { a: "9" } }, merge);
    const refused = await send(path, "me", data({ a: "1", b: "1" }));
    expect(refused.body).toMatchObject({
      details: { causes: [{ message: expect.stringContaining("editor"), field: ".data.a" }] },
    });
    expect((await send(path, "me", data({ b: "1" }))).body.data).toEqual({ a: "9", b: "1" });
  });

  test("the object's managed fields record the manager of each field", async () => {
    const path = await configMap();
    const { body } = await send(path, "me", { ...data({ a: "1" }), metadata: { name: "c", labels: { l: "1" } } });
    expect(body.metadata.managedFields).toEqual([
      {
        manager: "me",
        operation: "Apply",
        apiVersion: "v1",
        time: expect.any(String),
        fieldsType: "FieldsV1",
        fieldsV1: { "f:data": { "f:a": {} }, "f:metadata": { "f:labels": { "f:l": {} } } },
      },
    ]);
  });

  test("a field that was set before anything was applied has an owner: another value is a conflict, and it stays when it is applied no more", async () => {
    const path = await configMap();
    await protocol.api.done("POST", path.replace(/\/c$/u, ""), data({ a: "1", b: "1" }));
    const refused = await send(path, "me", data({ a: "2" }));
    expect(refused.body).toMatchObject({ code: 409, details: { causes: [{ field: ".data.a" }] } });
    expect((await send(path, "me", data({ a: "1" }))).body.data).toEqual({ a: "1", b: "1" });
    expect((await send(path, "me", data({}))).body.data).toEqual({ a: "1", b: "1" });
  });

  test("a field that an update adds to an applied object belongs to the writer", async () => {
    const path = await configMap();
    await send(path, "me", data({ a: "1" }));
    await protocol.api.done("PATCH", `${path}?fieldManager=editor`, { data: { b: "1" } }, merge);
    const refused = await send(path, "me", data({ a: "1", b: "2" }));
    expect(refused.body).toMatchObject({
      details: { causes: [{ message: 'conflict with "editor" using v1', field: ".data.b" }] },
    });
    await send(path, "me", data({ a: "1", b: "2" }), true);
    await protocol.api.done("PATCH", `${path}?fieldManager=editor`, { data: { b: null } }, merge);
    expect((await send(path, "me", data({ a: "1", b: "3" }))).body.data).toEqual({ a: "1", b: "3" });
    for (const value of ["1", null])
      await protocol.api.done("PATCH", `${path}?fieldManager=editor`, { data: { c: value } }, merge);
    expect((await send(path, "me", data({ a: "1", c: "2" }))).body.data).toEqual({ a: "1", c: "2" });
  });

  test("a manager owns what it applies to the status apart from the rest", async () => {
    const name = protocol.name("node");
    const path = `/api/v1/nodes/${name}`;
    await protocol.api.done("POST", "/api/v1/nodes", { metadata: { name } });
    interface Part {
      readonly metadata?: object;
      readonly spec?: object;
      readonly status?: object;
    }
    const applied = (place: string, part: Part): Promise<Reply> => {
      const body = { apiVersion: "v1", kind: "Node", ...part, metadata: { name, ...part.metadata } };
      return protocol.api.send("PATCH", `${place}?fieldManager=me`, body, { contentType: apply });
    };
    const labels = { "example.com/a": "1" };
    const conditions = [{ type: "A", status: "True" }];
    await applied(path, { metadata: { labels }, status: { phase: "Pending" } });
    const both = await applied(`${path}/status`, { spec: { unschedulable: true }, status: { conditions } });
    expect(both.body).toMatchObject({ metadata: { labels }, status: { conditions } });
    const owned = both.body.metadata.managedFields?.filter(({ manager }) => manager === "me");
    expect(owned?.map(({ operation, subresource = "", fieldsV1 }) => [operation, subresource, fieldsV1])).toEqual([
      ["Apply", "", { "f:metadata": { "f:labels": { "f:example.com/a": {} } } }],
      [
        "Apply",
        "status",
        { "f:status": { "f:conditions": { [`k:{"type":"A"}`]: { ".": {}, "f:type": {}, "f:status": {} } } } },
      ],
    ]);
    const without = await applied(path, { metadata: { labels: { "example.com/b": "1" } } });
    expect(without.body).toMatchObject({ metadata: { labels: { "example.com/b": "1" } }, status: { conditions } });
    expect(without.body.metadata.labels).not.toHaveProperty(["example.com/a"]);
    const annotations = { "example.com/a": "1" };
    const annotated = await applied(`${path}/status`, { metadata: { annotations }, status: { conditions } });
    expect(annotated.body.metadata.annotations).toEqual(annotations);
    for (const place of [path, `${path}/status`])
      await protocol.api.done(
        "PATCH",
        `${place}?fieldManager=editor`,
        { metadata: { labels: { [place.length]: "1" } } },
        merge,
      );
    const edited = (await protocol.api.get(path)).body.metadata.managedFields ?? [];
    expect(edited.filter(({ manager }) => manager === "editor").map(({ subresource }) => subresource)).toEqual([
      undefined,
      "status",
    ]);
  });

  test("an item of a keyed list stays its manager's when another writer changes a field of it", async () => {
    const path = `/api/v1/namespaces/${await protocol.namespace()}/services/s`;
    const service = (...ports: readonly object[]): object => ({
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "s" },
      spec: { ports },
    });
    const applied = (...ports: readonly object[]): Promise<Reply> =>
      protocol.api.send("PATCH", `${path}?fieldManager=me`, service(...ports), { contentType: apply });
    await applied({ name: "a", port: 1 }, { name: "b", port: 2 });
    const patch = { spec: { ports: [{ port: 2, name: "c" }] } };
    await protocol.api.done("PATCH", `${path}?fieldManager=editor`, patch, strategic);
    expect((await applied({ name: "a", port: 1 }, { port: 2 })).body.spec["ports"]).toMatchObject([
      { name: "a", port: 1 },
      { name: "c", port: 2 },
    ]);
    const refused = await applied({ name: "a", port: 1 }, { name: "b", port: 2 });
    expect((await applied({ name: "a", port: 1 })).body.spec["ports"]).toMatchObject([{ port: 1 }]);
    expect(refused.body.details?.causes).toEqual([
      {
        reason: "FieldManagerConflict",
        message: 'conflict with "editor" using v1',
        field: '.spec.ports[port=2,protocol="TCP"].name',
      },
    ]);
  });

  test("is refused for the status of a missing object, for a uid that no object has, and with managed fields", async () => {
    const name = protocol.name("node");
    const node = { apiVersion: "v1", kind: "Node", metadata: { name }, status: { phase: "Pending" } };
    const path = `/api/v1/nodes/${name}/status?fieldManager=me`;
    expect((await protocol.api.send("PATCH", path, node, { contentType: apply })).status).toBe(404);
    const missing = await configMap();
    const named = (metadata: object): object => ({ metadata: { name: "c", ...metadata } });
    expect((await send(missing, "me", named({ uid: crypto.randomUUID() }))).body).toMatchObject({
      code: 409,
      message: expect.stringContaining("uid mismatch"),
    });
    const listed = await send(missing, "me", named({ managedFields: [{ manager: "me" }] }));
    expect([listed.status, listed.body.message]).toEqual([400, "metadata.managedFields must be nil"]);
    expect((await send(missing, "me", named({ resourceVersion: "1" }))).status).toBe(201);
  });

  test("lists merge by their keys: conditions of a node by type, ports of a service by number and protocol", async () => {
    const node = `/api/v1/nodes/${protocol.name("node")}`;
    const metadata = { name: node.split("/").at(-1) };
    const condition = (type: string, status: string): object => ({ type, status });
    const applied = (path: string, manager: string, body: object): Promise<Reply> =>
      protocol.api.send("PATCH", `${path}?fieldManager=${manager}`, body, { contentType: apply });
    await protocol.api.done("POST", "/api/v1/nodes", { metadata });
    const of = (conditions: readonly object[]): object => ({
      apiVersion: "v1",
      kind: "Node",
      metadata,
      status: { conditions },
    });
    await applied(`${node}/status`, "me", of([condition("A", "True"), condition("B", "True")]));
    await applied(`${node}/status`, "you", of([condition("C", "True")]));
    const { body } = await applied(`${node}/status`, "me", of([condition("B", "False")]));
    expect(body.status).toMatchObject({
      conditions: [
        { type: "B", status: "False" },
        { type: "C", status: "True" },
      ],
    });

    const service = `/api/v1/namespaces/${await protocol.namespace()}/services/s`;
    const ports = (...list: readonly object[]): object => ({
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "s" },
      spec: { ports: list },
    });
    await applied(
      service,
      "me",
      ports({ name: "t", port: 53 }, { name: "u", port: 53, protocol: "UDP", targetPort: 5353 }),
    );
    const changed = await applied(service, "me", ports({ name: "u", port: 53, protocol: "UDP", targetPort: 5354 }));
    expect(changed.body.spec["ports"]).toEqual([{ name: "u", port: 53, protocol: "UDP", targetPort: 5354 }]);
  });

  test("rejects a configuration for another name, or without a kind", async () => {
    const path = await configMap();
    expect((await send(path, "me", { metadata: { name: "other" } })).status).toBe(400);
    const bare = await protocol.api.send("PATCH", `${path}?fieldManager=me`, data({}), { contentType: apply });
    expect(bare.status).toBe(400);
  });

  test("strategic merge keeps the order of $setElementOrder", async () => {
    const path = `/api/v1/namespaces/${await protocol.namespace()}/services`;
    const port = (name: string, number: number): object => ({ name, port: number });
    await protocol.api.done("POST", path, {
      metadata: { name: "s" },
      spec: { ports: [port("a", 1), port("b", 2), port("c", 3)] },
    });
    const patch = {
      spec: {
        $setElementOrder: undefined,
        "$setElementOrder/ports": [{ port: 3 }, { port: 4 }, { port: 1 }],
        ports: [port("d", 4)],
      },
    };
    const { spec } = await protocol.api.done("PATCH", `${path}/s`, patch, strategic);
    const order = JSON.stringify(spec["ports"]).match(/"port":\d/g);
    expect(order).toEqual(['"port":2', '"port":3', '"port":4', '"port":1']);
  });

  test("strategic merge adds to a list of values, and removes from it by directive", async () => {
    const path = `/api/v1/namespaces/${await protocol.namespace()}/configmaps`;
    await protocol.api.done("POST", path, { metadata: { name: "c", finalizers: ["a.b/1", "a.b/2"] } });
    const finalizers = async (metadata: object): Promise<readonly string[]> =>
      (await protocol.api.done("PATCH", `${path}/c`, { metadata }, strategic)).metadata.finalizers ?? [];
    expect([...(await finalizers({ finalizers: ["a.b/3", "a.b/1"] }))].toSorted()).toEqual(["a.b/1", "a.b/2", "a.b/3"]);
    expect(await finalizers({ "$deleteFromPrimitiveList/finalizers": ["a.b/2", "a.b/1"] })).toEqual(["a.b/3"]);
  });

  test("strategic merge replaces or empties a value by directive", async () => {
    const path = `/api/v1/namespaces/${await protocol.namespace()}/configmaps`;
    await protocol.api.done("POST", path, {
      metadata: { name: "c", labels: { a: "1", b: "2" } },
      data: { x: "1", y: "2" },
    });
    const patch = (body: object): Promise<unknown> => protocol.api.done("PATCH", `${path}/c`, body, strategic);
    expect(await patch({ data: { $patch: "replace", z: "3" } })).toMatchObject({ data: { z: "3" } });
    expect(await patch({ metadata: { labels: { $retainKeys: ["b"], b: "3" } } })).toMatchObject({
      metadata: { labels: { b: "3" } },
    });
    expect(await patch({ data: { $patch: "delete" } })).not.toHaveProperty("data");
  });
});
