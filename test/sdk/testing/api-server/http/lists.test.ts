import { beforeAll, expect, test } from "bun:test";

import type { Document } from "../api-client.ts";
import { describeProtocol } from "../on-both.ts";

const names = ({ items }: Document): readonly string[] => items.map(({ metadata }) => metadata.name ?? "");

describeProtocol("listing", (protocol) => {
  let path = "";
  beforeAll(async () => {
    path = `/api/v1/namespaces/${await protocol.namespace()}/configmaps`;
    const labels: Readonly<Record<string, object>> = {
      a: { tier: "front", "x.y/z": "1" },
      "a-b": { tier: "back" },
      b: { tier: "back", n: "7" },
      c: {},
      d: { tier: "front", n: "3" },
    };
    for (const [name, own] of Object.entries(labels))
      await protocol.api.done("POST", path, { metadata: { name, labels: own } });
  });

  test("a list has a resourceVersion, and items in the order of their names without kind and apiVersion", async () => {
    const list = (await protocol.api.get(path)).body;
    expect(list).toMatchObject({ kind: "ConfigMapList", apiVersion: "v1" });
    expect(Number(list.metadata.resourceVersion)).toBeGreaterThan(0);
    expect(names(list)).toEqual(["a", "a-b", "b", "c", "d"]);
    for (const item of list.items) {
      expect(item).not.toHaveProperty("kind");
      expect(item).not.toHaveProperty("apiVersion");
    }
  });

  const selections: readonly (readonly [string, string, readonly string[]])[] = [
    ["labelSelector", "tier=front", ["a", "d"]],
    ["labelSelector", "tier==front,n", ["d"]],
    ["labelSelector", "tier!=front", ["a-b", "b", "c"]],
    ["labelSelector", "tier in (front, back),!n", ["a", "a-b"]],
    ["labelSelector", "tier notin (front)", ["a-b", "b", "c"]],
    ["labelSelector", "!tier", ["c"]],
    ["labelSelector", "x.y/z=1", ["a"]],
    ["labelSelector", "n>3", ["b"]],
    ["labelSelector", "n<7", ["d"]],
    ["labelSelector", "tier=", []],
    ["fieldSelector", "metadata.name=b", ["b"]],
    ["fieldSelector", "metadata.name!=b", ["a", "a-b", "c", "d"]],
    ["fieldSelector", "metadata.name=b,metadata.name=c", []],
  ];
  for (const [parameter, selector, expected] of selections)
    test(`${parameter} ${selector} finds ${expected.join(", ") || "nothing"}`, async () => {
      const query = new URLSearchParams({ [parameter]: selector });
      expect(names((await protocol.api.get(`${path}?${query.toString()}`)).body)).toEqual([...expected]);
    });

  for (const [parameter, selector] of [
    ["labelSelector", "tier in front"],
    ["labelSelector", "=a"],
    ["fieldSelector", "spec.foo=1"],
    ["fieldSelector", "metadata.name"],
  ] as const)
    test(`${parameter} ${selector} is a 400`, async () => {
      const query = new URLSearchParams({ [parameter]: selector });
      const { status, body } = await protocol.api.get(`${path}?${query.toString()}`);
      expect(status).toBe(400);
      expect(body).toMatchObject({ kind: "Status", reason: "BadRequest" });
    });

  test("nodes are selected by spec.unschedulable", async () => {
    const name = protocol.name("node");
    await protocol.api.done("POST", "/api/v1/nodes", { metadata: { name }, spec: { unschedulable: true } });
    const found = async (value: string): Promise<boolean> =>
      names((await protocol.api.get(`/api/v1/nodes?fieldSelector=spec.unschedulable%3D${value}`)).body).includes(name);
    expect([await found("true"), await found("false")]).toEqual([true, false]);
  });

  test("a paginated list is consistent with its first page", async () => {
    const own = `/api/v1/namespaces/${await protocol.namespace()}/configmaps`;
    for (const name of ["a", "b", "c", "d", "e"]) await protocol.api.done("POST", own, { metadata: { name } });
    const first = (await protocol.api.get(`${own}?limit=2`)).body;
    expect(names(first)).toEqual(["a", "b"]);
    expect(first.metadata.remainingItemCount).toBe(3);
    await protocol.api.done("DELETE", `${own}/d`);
    await protocol.api.done("POST", own, { metadata: { name: "cc" } });
    const next = `${own}?limit=2&continue=${encodeURIComponent(first.metadata.continue ?? "")}`;
    const second = (await protocol.api.get(next)).body;
    expect(names(second)).toEqual(["c", "d"]);
    expect(second.metadata.resourceVersion).toBe(first.metadata.resourceVersion ?? "");
    const rest = `${own}?limit=2&continue=${encodeURIComponent(second.metadata.continue ?? "")}`;
    const third = (await protocol.api.get(rest)).body;
    expect(names(third)).toEqual(["e"]);
    expect(third.metadata.continue).toBeUndefined();
  });

  test("an invalid continue token is a 400", async () => {
    expect((await protocol.api.get(`${path}?limit=1&continue=nonsense`)).status).toBe(400);
  });

  test("a future resourceVersion is a 504 with a retry after one second", async () => {
    const { status, body, headers } = await protocol.api.get(`${path}?resourceVersion=99999999`);
    expect(status).toBe(504);
    expect(body).toMatchObject({
      reason: "Timeout",
      details: { causes: [{ reason: "ResourceVersionTooLarge" }], retryAfterSeconds: 1 },
    });
    expect(headers.get("retry-after")).toBe("1");
    expect((await protocol.api.get(`${path}?resourceVersion=x`)).status).toBe(400);
    expect((await protocol.api.get(`${path}?resourceVersion=0`)).status).toBe(200);
  });

  test("a list at exactly an earlier resourceVersion returns that state", async () => {
    const list = (await protocol.api.get(path)).body;
    const query = `resourceVersion=${list.metadata.resourceVersion ?? ""}&resourceVersionMatch=Exact`;
    expect((await protocol.api.get(`${path}?${query}`)).body).toEqual(list);
  });

  test("a list is returned as a table on request", async () => {
    const accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    const { body } = await protocol.api.get(`${path}?limit=1`, accept);
    expect(body).toMatchObject({
      kind: "Table",
      apiVersion: "meta.k8s.io/v1",
      columnDefinitions: [
        { name: "Name", type: "string", format: "name", priority: 0 },
        { name: "Data", type: "string", priority: 0 },
        { name: "Age", type: "string", priority: 0 },
      ],
      rows: [
        { cells: ["a", 0, expect.any(String)], object: { kind: "PartialObjectMetadata", metadata: { name: "a" } } },
      ],
    });
    expect(body.metadata.continue).toBeDefined();
  });

  test("a table embeds what includeObject requests: nothing, the metadata or the objects", async () => {
    const accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    const embedded = async (includeObject: string): Promise<unknown> => {
      const { body } = await protocol.api.get(`${path}?limit=1&includeObject=${includeObject}`, accept);
      return body;
    };
    expect(await embedded("None")).toMatchObject({ rows: [{ object: null }] });
    expect(await embedded("Metadata")).toMatchObject({ rows: [{ object: { kind: "PartialObjectMetadata" } }] });
    expect(await embedded("Object")).toMatchObject({
      rows: [{ object: { kind: "ConfigMap", metadata: { name: "a" } } }],
    });
  });

  test("a list is returned as PartialObjectMetadata on request", async () => {
    const list = await protocol.api.get(path, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1");
    expect(list.body).toMatchObject({ kind: "PartialObjectMetadataList", apiVersion: "meta.k8s.io/v1" });
    expect(list.body.items[0]).toMatchObject({ metadata: { name: "a", labels: { tier: "front" } } });
    const one = await protocol.api.get(`${path}/a`, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    expect(one.body).toMatchObject({ kind: "PartialObjectMetadata", metadata: { name: "a" } });
    expect(one.body).not.toHaveProperty("data");
  });

  test("events are selected by their involved object", async () => {
    const namespace = await protocol.namespace();
    const events = `/api/v1/namespaces/${namespace}/events`;
    for (const name of ["x", "y"])
      await protocol.api.done("POST", events, {
        metadata: { name: `e-${name}` },
        involvedObject: { kind: "ConfigMap", name, namespace, uid: `uid-${name}` },
        reason: "Made",
        type: "Normal",
      });
    const selector =
      "involvedObject.kind=ConfigMap,involvedObject.name=x,involvedObject.uid=uid-x,reason=Made,type=Normal";
    const found = await protocol.api.get(`${events}?fieldSelector=${encodeURIComponent(selector)}`);
    expect(names(found.body)).toEqual(["e-x"]);
  });
});
