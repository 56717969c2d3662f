import { beforeAll, describe, expect, test } from "bun:test";

import { Discovery } from "../../../../../sdk/testing/api-server/http/discovery.ts";
import { builtInResources } from "../../../../../sdk/testing/api-server/kinds/table.ts";
import { decodeProtobuf } from "../../../../../sdk/testing/api-server/protobuf/decode.ts";
import type { RecordSchema, Schema } from "../../../../../sdk/testing/api-server/schema/schema.ts";
import { describeOnRealApiServer } from "../../../../envtest/shared.ts";
import { ApiClient, type Document, merge } from "../api-client.ts";
import { describeProtocol } from "../on-both.ts";

describeProtocol("discovery", (protocol) => {
  test("serves aggregated discovery on request", async () => {
    const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    for (const path of ["/api", "/apis"]) {
      const { body, headers } = await protocol.api.get(path, accept);
      expect(headers.get("content-type")).toBe("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
      expect(body).toMatchObject({ kind: "APIGroupDiscoveryList", apiVersion: "apidiscovery.k8s.io/v2" });
    }
    const { items } = (await protocol.api.get("/api", accept)).body;
    const versions = JSON.stringify(items);
    expect(versions).toContain(
      '"resource":"nodes","responseKind":{"group":"","version":"","kind":"Node"},"scope":"Cluster"',
    );
  });

  test("serves the legacy discovery documents too", async () => {
    expect((await protocol.api.get("/api")).body).toMatchObject({ kind: "APIVersions", versions: ["v1"] });
    const groupVersion = "discovery.k8s.io/v1";
    const group = { name: "discovery.k8s.io", preferredVersion: { groupVersion, version: "v1" } };
    expect((await protocol.api.get("/apis")).body).toMatchObject({
      kind: "APIGroupList",
      groups: expect.arrayContaining([expect.objectContaining(group)]),
    });
    expect((await protocol.api.get("/apis/discovery.k8s.io")).body).toMatchObject({ kind: "APIGroup", ...group });
    expect((await protocol.api.get("/version")).body).toMatchObject({ gitVersion: expect.stringMatching(/^v1\./) });
  });

  test("serves an OpenAPI document for each group and version", async () => {
    const { paths } = Object(await openapi(protocol.api, "/openapi/v3"));
    const { serverRelativeURL } = paths["apis/coordination.k8s.io/v1"];
    const { components } = Object(await openapi(protocol.api, serverRelativeURL));
    expect(components.schemas["io.k8s.api.coordination.v1.Lease"]).toMatchObject({
      type: "object",
      properties: { spec: { allOf: [{ $ref: "#/components/schemas/io.k8s.api.coordination.v1.LeaseSpec" }] } },
      "x-kubernetes-group-version-kind": [{ group: "coordination.k8s.io", version: "v1", kind: "Lease" }],
    });
  });
});

const openapi = async (api: ApiClient, path: string): Promise<unknown> => (await api.get(path)).body;

/** The parts of a schema that decide how fields are merged. */
interface Merging {
  readonly fields: readonly string[];
  readonly lists: Readonly<Record<string, unknown>>;
}

/** Resources by name, without the hash that only the real server has. */
const bare = ({ resources }: Readonly<Record<string, unknown>>): ReadonlyMap<string, unknown> => {
  const lines: readonly { readonly name: string }[] = Array.isArray(resources) ? resources : [];
  return new Map(lines.map((line) => [line.name, { ...line, storageVersionHash: undefined }]));
};

describeOnRealApiServer("our kinds and those of a real API server", (cluster) => {
  const real: Record<string, { readonly properties?: Readonly<Record<string, Readonly<Record<string, unknown>>>> }> =
    {};
  let api: ApiClient;
  beforeAll(async () => {
    const [{ server, caPem }, pair] = await Promise.all([
      cluster.endpoint(),
      cluster.certificate("schemas", ["system:masters"]),
    ]);
    api = new ApiClient({ url: server, tls: { ca: caPem, cert: pair.certPem, key: pair.keyPem } });
    for (const path of ["api/v1", "apis/coordination.k8s.io/v1", "apis/discovery.k8s.io/v1"])
      Object.assign(real, Object(await openapi(api, `/openapi/v3/${path}`)).components.schemas);
  });

  const records = new Map<string, RecordSchema>();
  const collect = (schema: Schema): void => {
    if (schema.type === "list") collect(schema.items);
    else if (schema.type === "map") collect(schema.values);
    else if (schema.type === "record" && !schema.open && !records.has(schema.name)) {
      records.set(schema.name, schema);
      Object.values(schema.fields).forEach(collect);
    }
  };
  builtInResources.forEach(({ schema }) => collect(schema));

  for (const path of [
    "/api/v1",
    "/apis/coordination.k8s.io/v1",
    "/apis/discovery.k8s.io/v1",
    "/apis/authentication.k8s.io/v1",
    "/apis/authorization.k8s.io/v1",
  ])
    test(`${path} describes each kind like the real one`, async () => {
      const theirs = bare(Object((await api.get(path)).body));
      const own = bare(new Discovery(builtInResources, () => "").document(path, false) ?? {});
      expect(own.size).toBeGreaterThan(0);
      for (const [name, line] of own) expect(line).toEqual(theirs.get(name));
    });

  for (const [name, record] of records)
    test(`${name} has the same fields and merge keys as the real one`, () => {
      const properties = real[name]?.properties ?? {};
      const lists = Object.entries(properties).filter(([, property]) => property["type"] === "array");
      const expected: Merging = {
        fields: Object.keys(properties).toSorted(),
        lists: Object.fromEntries(
          lists.map(([key, property]) => [
            key,
            [
              property["x-kubernetes-list-type"] ?? "atomic",
              property["x-kubernetes-list-map-keys"] ?? [],
              property["x-kubernetes-patch-merge-key"] ??
                (property["x-kubernetes-patch-strategy"] === "merge" ? "" : undefined),
            ],
          ]),
        ),
      };
      expect(mergingOf(record)).toEqual(expected);
    });

  test("decodes the real API server's protobuf to the same objects as its JSON", async () => {
    const namespaced = "/api/v1/namespaces/default";
    const node = {
      metadata: { name: "protobuf", labels: { a: "b" }, annotations: { c: "d" }, finalizers: ["a.b/c"] },
      spec: {
        unschedulable: true,
        taints: [{ key: "k", effect: "NoExecute", timeAdded: "2026-01-02T03:04:05Z" }],
        podCIDRs: ["10.1.0.0/24"],
        podCIDR: "10.1.0.0/24",
      },
      status: {
        capacity: { cpu: "4", memory: "16Gi" },
        addresses: [{ type: "InternalIP", address: "10.0.0.4" }],
        conditions: [{ type: "Ready", status: "True", lastHeartbeatTime: "2026-01-02T03:04:05Z" }],
        images: [{ names: ["a", "b"], sizeBytes: 5_000_000_000 }],
        nodeInfo: { kubeletVersion: "v1" },
      },
    };
    const owner = { apiVersion: "v1", kind: "Node", name: "n", uid: "u", controller: true };
    const objects: Readonly<Record<string, object>> = {
      "/api/v1/nodes": node,
      [`${namespaced}/services`]: {
        metadata: { name: "protobuf", ownerReferences: [owner] },
        spec: {
          type: "LoadBalancer",
          externalTrafficPolicy: "Local",
          sessionAffinity: "ClientIP",
          selector: { a: "b" },
          loadBalancerSourceRanges: ["10.0.0.0/8"],
          ports: [
            { name: "a", port: 80, targetPort: "http" },
            { name: "b", port: 81, targetPort: 8081 },
          ],
        },
      },
      "/apis/coordination.k8s.io/v1/namespaces/default/leases": {
        metadata: { name: "protobuf" },
        spec: {
          holderIdentity: "",
          leaseDurationSeconds: 15,
          renewTime: "2026-01-02T03:04:05.000678Z",
          leaseTransitions: 0,
        },
      },
      [`${namespaced}/events`]: {
        metadata: { name: "protobuf" },
        involvedObject: { kind: "Node", name: "n" },
        lastTimestamp: "2026-01-02T03:04:05Z",
        count: 3,
        type: "Warning",
      },
      [`${namespaced}/secrets`]: {
        metadata: { name: "protobuf" },
        data: { a: btoa("binary\u0000") },
        immutable: false,
      },
      [`${namespaced}/configmaps`]: { metadata: { name: "protobuf" }, data: { a: "ä" } },
      "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": {
        metadata: { name: "protobuf" },
        addressType: "IPv4",
        endpoints: [
          {
            addresses: ["10.1.2.3"],
            conditions: { ready: false },
            nodeName: "n",
            hints: { forZones: [{ name: "1" }] },
          },
        ],
        ports: [{ name: "", port: 80 }],
      },
    };
    for (const [path, object] of Object.entries(objects)) {
      await api.done("POST", path, object);
      await api.done("PATCH", `${path}/protobuf?fieldManager=m`, { metadata: { labels: { x: "y" } } }, merge);
      const written = (await api.get(`${path}/protobuf`)).body;
      const response = await api.fetch(`${path}/protobuf`, {
        headers: { accept: "application/vnd.kubernetes.protobuf" },
      });
      const resource = builtInResources.find(({ kind }) => kind === written.kind);
      if (resource === undefined) throw new Error(`no kind ${written.kind}`);
      const read: unknown = decodeProtobuf(await response.bytes(), resource.schema);
      expect(written).toEqual(pruned(read, written));
    }
  });
});

/** Without the empty values that JSON leaves out and protobuf does not. */
function pruned(read: unknown, written: unknown): Document {
  const prune = (value: unknown, like: unknown): unknown => {
    if (Array.isArray(value))
      return value.map((item, index) => prune(item, Array.isArray(like) ? like[index] : undefined));
    if (typeof value !== "object" || value === null) return value;
    const other: Readonly<Record<string, unknown>> = Object(like);
    return Object.fromEntries(
      Object.entries(value).flatMap(([key, below]) =>
        key in other || !isEmpty(below) ? [[key, prune(below, other[key])]] : [],
      ),
    );
  };
  return Object(prune(read, written));
}

function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0;
  if (typeof value === "object" && value !== null) return Object.values(value).every(isEmpty);
  return value === "" || value === 0 || value === false || value === null;
}

function mergingOf(record: RecordSchema): Merging {
  const lists = Object.entries(record.fields).flatMap(([key, field]) =>
    field.type === "list" ? [[key, [field.listType, field.keys, field.mergeKey]] as const] : [],
  );
  return { fields: Object.keys(record.fields).toSorted(), lists: Object.fromEntries(lists) };
}

describe("protobuf", () => {
  const lease = builtInResources.find(({ kind }) => kind === "Lease");

  test("decodes an object in the API's envelope by its field numbers", () => {
    const bytes = Buffer.from(
      "azhzAAofChZjb29yZGluYXRpb24uazhzLmlvL3YxEgVMZWFzZRKGAwrtAgoHZml4dHVyZRIAGgtrdWJlLXN5c3RlbSIAKiQxMWFkODY2ZC1kYTNl" +
        "LTQ5MWItYmM4ZS1hMWM0MzhmYzBlZTkyBDE1NDk4AEIICPvUgtgGEABaBgoBYRIBYnIFYS5iL2OKAYgCCg5rdWJlY3RsLWNyZWF0ZRIGVXBkYXRl" +
        "GhZjb29yZGluYXRpb24uazhzLmlvL3YxIggI+9SC2AYQADIIRmllbGRzVjE6vwEKvAF7ImY6bWV0YWRhdGEiOnsiZjpmaW5hbGl6ZXJzIjp7Ii4i" +
        "Ont9LCJ2OlwiYS5iL2NcIiI6e319LCJmOmxhYmVscyI6eyIuIjp7fSwiZjphIjp7fX19LCJmOnNwZWMiOnsiZjpob2xkZXJJZGVudGl0eSI6e30s" +
        "ImY6bGVhc2VEdXJhdGlvblNlY29uZHMiOnt9LCJmOmxlYXNlVHJhbnNpdGlvbnMiOnt9LCJmOnJlbmV3VGltZSI6e319fUIAEhQKAm1lEA8iCgil" +
        "69zKBhDwsCkoABoAIgA=",
      "base64",
    );
    if (lease === undefined) throw new Error("no leases");
    expect(decodeProtobuf(bytes, lease.schema)).toMatchObject({
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: {
        name: "fixture",
        namespace: "kube-system",
        labels: { a: "b" },
        finalizers: ["a.b/c"],
        creationTimestamp: "2026-11-20T20:15:55Z",
        managedFields: [{ manager: "kubectl-create", fieldsV1: { "f:spec": { "f:holderIdentity": {} } } }],
      },
      spec: {
        holderIdentity: "me",
        leaseDurationSeconds: 15,
        leaseTransitions: 0,
        renewTime: "2026-01-02T03:04:05.000678Z",
      },
    });
  });

  test("invalid bytes are a 400", () => {
    if (lease === undefined) throw new Error("no leases");
    for (const bytes of ["", "k8s", "nope", "k8s\0\u0001", "k8s\0\u000a\u00ff"])
      expect(() => decodeProtobuf(Buffer.from(bytes, "latin1"), lease.schema)).toThrow(
        expect.objectContaining({ status: 400 }),
      );
  });
});
