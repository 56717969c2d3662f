import { expect, test } from "bun:test";

import { apply, jsonPatch, merge, strategic } from "./api-client.ts";
import { describeProtocol } from "./on-both.ts";

const nodes = "/api/v1/nodes";

describeProtocol("errors", (protocol) => {
  const refusals: readonly {
    readonly name: string;
    readonly method: string;
    readonly path: string;
    readonly body?: unknown;
    readonly contentType?: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly status: number;
    readonly reason?: string;
  }[] = [
    { name: "a missing object", method: "GET", path: `${nodes}/none`, status: 404, reason: "NotFound" },
    {
      name: "a missing namespaced object",
      method: "GET",
      path: "/api/v1/namespaces/default/services/none",
      status: 404,
      reason: "NotFound",
    },
    {
      name: "a missing namespace",
      method: "POST",
      path: "/api/v1/namespaces/none/configmaps",
      body: { metadata: { name: "a" } },
      status: 404,
      reason: "NotFound",
    },
    {
      name: "a method that a collection does not have",
      method: "PUT",
      path: nodes,
      body: {},
      status: 405,
      reason: "MethodNotAllowed",
    },
    {
      name: "a method that an object does not have",
      method: "POST",
      path: `${nodes}/a`,
      body: {},
      status: 405,
      reason: "MethodNotAllowed",
    },
    {
      name: "creating across namespaces",
      method: "POST",
      path: "/api/v1/configmaps",
      body: { metadata: { name: "a" } },
      status: 405,
      reason: "MethodNotAllowed",
    },
    {
      name: "deleting all namespaces",
      method: "DELETE",
      path: "/api/v1/namespaces",
      status: 405,
      reason: "MethodNotAllowed",
    },
    { name: "a body that is not JSON", method: "POST", path: nodes, body: "{", status: 400, reason: "BadRequest" },
    {
      name: "a body that is not an object",
      method: "POST",
      path: nodes,
      body: "[]",
      status: 400,
      reason: "BadRequest",
    },
    {
      name: "an object of another kind",
      method: "POST",
      path: nodes,
      body: { kind: "Pod", apiVersion: "v1", metadata: { name: "a" } },
      status: 400,
      reason: "BadRequest",
    },
    {
      name: "an object of another version",
      method: "POST",
      path: nodes,
      body: { kind: "Node", apiVersion: "v2", metadata: { name: "a" } },
      status: 400,
      reason: "BadRequest",
    },
    {
      name: "a value of the wrong type",
      method: "POST",
      path: nodes,
      body: { metadata: { name: "a" }, spec: { unschedulable: "yes" } },
      status: 400,
      reason: "BadRequest",
    },
    {
      name: "a list where an object belongs",
      method: "POST",
      path: nodes,
      body: { metadata: { name: "a" }, spec: [] },
      status: 400,
      reason: "BadRequest",
    },
    {
      name: "a new object with a resourceVersion",
      method: "POST",
      path: nodes,
      body: { metadata: { name: "a", resourceVersion: "1" } },
      status: 500,
    },
    {
      name: "an object of another namespace",
      method: "POST",
      path: "/api/v1/namespaces/default/configmaps",
      body: { metadata: { name: "a", namespace: "b" } },
      status: 400,
      reason: "BadRequest",
    },
    {
      name: "an object without a name",
      method: "POST",
      path: nodes,
      body: { metadata: {} },
      status: 422,
      reason: "Invalid",
    },
    {
      name: "a name with capitals",
      method: "POST",
      path: nodes,
      body: { metadata: { name: "A_b" } },
      status: 422,
      reason: "Invalid",
    },
    {
      name: "a service whose name has a dot",
      method: "POST",
      path: "/api/v1/namespaces/default/services",
      body: { metadata: { name: "a.b" }, spec: { ports: [{ port: 1 }] } },
      status: 422,
      reason: "Invalid",
    },
    {
      name: "a namespace with a dot",
      method: "POST",
      path: "/api/v1/namespaces",
      body: { metadata: { name: "a.b" } },
      status: 422,
      reason: "Invalid",
    },
    {
      name: "an invalid label key",
      method: "POST",
      path: nodes,
      body: { metadata: { name: "a", labels: { "-a": "b" } } },
      status: 422,
      reason: "Invalid",
    },
    {
      name: "an invalid label value",
      method: "POST",
      path: nodes,
      body: { metadata: { name: "a", labels: { a: "b c" } } },
      status: 422,
      reason: "Invalid",
    },
    {
      name: "a body in an unknown format",
      method: "POST",
      path: nodes,
      body: "a",
      contentType: "text/plain",
      status: 415,
      reason: "UnsupportedMediaType",
    },
    {
      name: "a patch in an unknown patch format",
      method: "PATCH",
      path: `${nodes}/a`,
      body: {},
      contentType: "application/json",
      status: 415,
      reason: "UnsupportedMediaType",
    },
    {
      name: "a patch of a missing object",
      method: "PATCH",
      path: `${nodes}/none`,
      body: {},
      contentType: merge,
      status: 404,
      reason: "NotFound",
    },
    {
      name: "a strategic merge patch that is not an object",
      method: "PATCH",
      path: "/api/v1/namespaces/default",
      body: "[]",
      contentType: strategic,
      status: 400,
      reason: "BadRequest",
    },
    {
      name: "a JSON patch that is not a list",
      method: "PATCH",
      path: "/api/v1/namespaces/default",
      body: {},
      contentType: jsonPatch,
      status: 400,
      reason: "BadRequest",
    },
    {
      name: "an apply without a field manager",
      method: "PATCH",
      path: "/api/v1/namespaces/default",
      body: {},
      contentType: apply,
      status: 422,
      reason: "Invalid",
    },
    {
      name: "a reply in a format that the server does not have",
      method: "GET",
      path: nodes,
      headers: { accept: "text/html" },
      status: 406,
      reason: "NotAcceptable",
    },
    {
      name: "deleting the namespace default",
      method: "DELETE",
      path: "/api/v1/namespaces/default",
      status: 403,
      reason: "Forbidden",
    },
    {
      name: "an event about another namespace",
      method: "POST",
      path: "/api/v1/namespaces/default/events",
      body: { metadata: { name: "a" }, involvedObject: { namespace: "kube-system" } },
      status: 422,
      reason: "Invalid",
    },
  ];
  for (const { name, method, path, body, contentType, headers, status, reason } of refusals)
    test(`${name} is a ${status}`, async () => {
      const reply = await protocol.api.send(method, path, body, {
        ...(contentType === undefined ? {} : { contentType }),
        ...(headers === undefined ? {} : { headers }),
      });
      expect([reply.status, reply.body.reason ?? ""]).toEqual([status, reason ?? ""]);
      expect(reply.body).toMatchObject({ kind: "Status", apiVersion: "v1", status: "Failure", code: status });
      expect(reply.body.message).not.toBe("");
    });

  for (const path of [
    "/apis/none/v1/things",
    "/api/v1/things",
    "/api/v2/nodes",
    "/nothing",
    "/api/v1/namespaces/default/nodes",
    "/api/v1/configmaps/a",
  ])
    test(`${path} is a 404`, async () => {
      expect((await protocol.api.fetch(path)).status).toBe(404);
    });

  test("a body larger than three megabytes is a 413", async () => {
    const data = { a: "x".repeat(3 * 1024 * 1024) };
    const body = { metadata: { name: protocol.name() }, data };
    const reply = await protocol.api.send("POST", "/api/v1/namespaces/default/configmaps", body);
    expect([reply.status, reply.body.reason]).toEqual([413, "RequestEntityTooLarge"]);
  });

  test("names of JavaScript's Object.prototype are not fields, labels or formats", async () => {
    const spec = JSON.parse('{"constructor": 1, "toString": {}, "__proto__": {"unschedulable": true}}');
    const name = protocol.name("node");
    const created = await protocol.api.send("POST", nodes, { metadata: { name }, spec });
    expect([created.status, created.body.spec]).toEqual([201, {}]);
    const found = await protocol.api.get(`${nodes}?labelSelector=constructor&fieldSelector=metadata.name%3D${name}`);
    expect(found.body.items).toEqual([]);
    expect((await protocol.api.get(`${nodes}?fieldSelector=constructor%3Dx`)).status).toBe(400);
    expect((await protocol.api.send("POST", nodes, "{}", { contentType: "constructor" })).status).toBe(415);
  });

  test("all problems of an object are reported at once, each with its field", async () => {
    const spec = { type: "NodePort", sessionAffinity: "Often", ports: [{ port: 0 }, { port: 70_000, name: "b" }] };
    const { body } = await protocol.api.send("POST", "/api/v1/namespaces/default/services", {
      metadata: { name: "a" },
      spec,
    });
    expect(body).toMatchObject({ code: 422, details: { kind: "Service", name: "a" } });
    const fields = JSON.stringify(body);
    for (const field of ["spec.sessionAffinity", "spec.ports[0].name", "spec.ports[0].port", "spec.ports[1].port"])
      expect(fields).toContain(`"field":"${field}"`);
  });
});
