import { expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";

import { SandboxApiServer } from "../../../../../sdk/testing/api-server/index.ts";
import { ApiClient } from "../api-client.ts";

const count = 1000;
const path = "/api/v1/nodes";
const nameOf = (index: number): string => `node-${String(index).padStart(4, "0")}`;
const expected = Array.from({ length: count }, (_one, index) => nameOf(index));

const clientOf = ({ url, ca, tokens }: SandboxApiServer): ApiClient =>
  new ApiClient({ url, tls: { ca }, token: tokens.of("admin") });

async function serverWithNodes(): Promise<SandboxApiServer> {
  const server = await SandboxApiServer.start();
  for (const name of expected) server.create(kinds.Node, { apiVersion: "v1", kind: "Node", metadata: { name } });
  return server;
}

test("a list of a thousand objects has each of them once, in order, also as a table and as metadata", async () => {
  await using server = await serverWithNodes();
  const api = clientOf(server);
  const { body } = await api.get(path);
  expect(body.items.map(({ metadata }) => metadata.name)).toEqual(expected);
  const partial = await api.get(path, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
  expect(partial.body.items.map(({ metadata }) => metadata.name)).toEqual(expected);
  const table = await api.get(path, "application/json;as=Table;g=meta.k8s.io;v=v1");
  expect(table.body).toMatchObject({
    kind: "Table",
    rows: expected.map((name) => ({ object: { metadata: { name } } })),
  });
});

test("a large list is sent in pieces, of the state in which it began", async () => {
  await using server = await serverWithNodes();
  const api = clientOf(server);
  const response = await api.fetch(path);
  expect(response.headers.get("content-length")).toBeNull();
  server.delete(kinds.Node, { name: nameOf(count - 1) });
  const { items }: { readonly items: readonly unknown[] } = JSON.parse(await response.text());
  expect(items.length).toBe(count);
  expect((await api.get(path)).body.items.length).toBe(count - 1);
});
