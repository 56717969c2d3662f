import { expect, test } from "bun:test";

import { defineKind, kinds } from "cloud-controller-host/sdk";

import { createClient } from "../../../../host/kube/connection/client.ts";
import type { ApiRequest, Transport } from "../../../../host/kube/connection/transport.ts";
import { isProtobuf, isReadable } from "../../../../host/kube/protobuf/envelope.ts";

test("Nodes of the core group can be read from protobuf, and no other kind", () => {
  const head = { kind: "Node", plural: "nodes", namespaced: false };
  const others = [
    defineKind({ ...head, group: "", version: "v2" }),
    defineKind({ ...head, group: "a.io", version: "v1" }),
  ];
  expect(isReadable(kinds.Node)).toBeTrue();
  expect([kinds.Service, kinds.Lease, kinds.Pod, ...others].map(isReadable)).not.toContain(true);
});

test("the content type of a reply decides how it is read, whatever its parameters and its case", () => {
  const reply = (type?: string): boolean =>
    isProtobuf(new Response(null, type === undefined ? {} : { headers: { "content-type": type } }));
  const protobuf = "application/vnd.kubernetes.protobuf";
  expect([protobuf, `${protobuf};stream=watch`, protobuf.toUpperCase()].map(reply)).toEqual([true, true, true]);
  expect([undefined, "", "application/json", `${protobuf}2`, `text/html; ${protobuf}`].map(reply)).not.toContain(true);
});

test("a client reads whole objects in JSON: a plugin may need what informers drop", async () => {
  const sent: ApiRequest[] = [];
  const list = { kind: "NodeList", apiVersion: "v1", metadata: { resourceVersion: "1" }, items: [] };
  const transport: Transport = {
    url: "https://test",
    userAgent: "test",
    protobuf: true,
    close: () => undefined,
    send: async (request) => {
      sent.push(request);
      if (request.query?.["watch"] === "true") return new Response("");
      return Response.json(request.path.endsWith("/a") ? { kind: "Node", metadata: { name: "a" } } : list);
    },
  };
  const client = createClient(transport);
  await client.list(kinds.Node);
  await client.list(kinds.Node, { trim: () => undefined });
  await client.get(kinds.Node, { name: "a" });
  expect(sent.map(({ accept }) => accept)).not.toContainEqual(expect.stringContaining("protobuf"));
  expect(sent.length).toBeGreaterThan(2);
});
