import { beforeEach, expect, test } from "bun:test";

import { ApiError, isObject, kinds, type Node } from "cloud-controller-host/sdk";

import { loadApiServer } from "../../../../host/kube/connection/api-server.ts";
import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { watchEvents } from "../../../../host/kube/connection/watch-events.ts";
import { documentOf, objectOf } from "../../../../host/kube/connection/wire.ts";
import { Compactor } from "../../../../host/kube/informers/compaction.ts";
import { isProtobuf, protobufAccept } from "../../../../host/kube/protobuf/envelope.ts";
import type { Cluster } from "../../../envtest/cluster.ts";
import { describeOnRealApiServer } from "../../../envtest/shared.ts";
import { realNode } from "../../../kit/real-node.ts";

const path = "/api/v1/nodes";
const at = "2026-11-20T18:31:44Z";
/** Every field of a status that an API server stores today. */
const status = {
  ...realNode("full").status,
  phase: "Running",
  conditions: [
    {
      type: "Ready",
      status: "True",
      lastHeartbeatTime: at,
      lastTransitionTime: at,
      reason: "KubeletReady",
      message: "ä€😀",
    },
    { type: "Empty", status: "Unknown", lastHeartbeatTime: null, lastTransitionTime: null },
  ],
  addresses: [
    { type: "InternalIP", address: "10.0.0.4" },
    { type: "InternalIP", address: "fd00::4" },
  ],
  nodeInfo: { ...realNode("full").status?.nodeInfo, swap: { capacity: 4_294_967_296_000 } },
  volumesInUse: ["kubernetes.io/csi/disk.csi.azure.com^a"],
  volumesAttached: [{ name: "kubernetes.io/csi/disk.csi.azure.com^a", devicePath: "" }],
  runtimeHandlers: [
    { name: "", features: { recursiveReadOnlyMounts: false, userNamespaces: true } },
    { name: "runc", features: {} },
    { name: "kata" },
  ],
  features: { supplementalGroupsPolicy: false },
  declaredFeatures: ["RestartAllContainersOnContainerExits"],
};

const full = {
  metadata: {
    name: "full",
    labels: { "a.io/b": "", c: "d" },
    annotations: { "a.io/text": 'quotes " and ä€😀' },
    finalizers: ["a.io/wait"],
    ownerReferences: [
      { apiVersion: "v1", kind: "Node", name: "o", uid: "u-2", controller: false, blockOwnerDeletion: true },
      { apiVersion: "v1", kind: "Node", name: "p", uid: "u-3" },
    ],
  },
  spec: {
    podCIDR: "10.1.0.0/24",
    podCIDRs: ["10.1.0.0/24", "fd01::/64"],
    providerID: "azure:///a",
    unschedulable: true,
    taints: [
      { key: "a", effect: "NoExecute", timeAdded: "1969-12-31T23:59:59Z" },
      { key: "b", value: "c", effect: "NoSchedule" },
    ],
  },
  status,
};

describeOnRealApiServer("a Node from the API server", (cluster: Cluster) => {
  beforeEach(() => cluster.cleanSlate());

  const ask = async (query: Readonly<Record<string, string>>, accept: string, target = path): Promise<Response> => {
    const kubeconfig = await cluster.kubeconfig("protobuf", ["system:masters"]);
    const transport = createTransport(loadApiServer({ kubeconfig }), { userAgent: "test", qps: -1 });
    return transport.send({ method: "GET", path: target, query, accept, stream: query["watch"] === "true" });
  };
  /** As an informer keeps it. */
  const kept = (value: unknown): Node => {
    const object = objectOf(kinds.Node, structuredClone(value));
    new Compactor(kinds.Node).compact(object);
    return object;
  };
  const events = async (response: Response): Promise<readonly unknown[]> => {
    const read = (await Array.fromAsync(watchEvents(response))).flat();
    return read.map((event) => {
      const { type, object } = isObject(event) ? event : {};
      return { type, object: type === "ERROR" ? object : kept(object) };
    });
  };
  const list = async (query: Readonly<Record<string, string>>, accept: string): Promise<readonly [Node[], object]> => {
    const response = await ask(query, accept);
    expect(isProtobuf(response)).toBe(accept === protobufAccept);
    const document = await documentOf(response);
    const { items = [], ...rest } = isObject(document) ? document : {};
    return [Array.isArray(items) ? items.map(kept) : [], rest];
  };
  const json = "application/json";
  const create = async (): Promise<Node> => {
    for (const name of ["small", "real"])
      await cluster.admin.request("POST", path, { ...(name === "real" && realNode(name)), metadata: { name } });
    await cluster.admin.request("POST", path, { ...full, status: {} });
    return cluster.admin.patch(kinds.Node, { name: "full" }, "merge", { status }, { subresource: "status" });
  };

  test("has every field in protobuf that it has in JSON, in lists", async () => {
    const stored = await create();
    expect(stored.status).toMatchObject(status);
    const [fromProtobuf, fromJson] = [await list({}, protobufAccept), await list({}, json)];
    expect(fromProtobuf[0]).toHaveLength(3);
    expect(fromProtobuf).toStrictEqual(fromJson);
    const [page, head] = await list({ limit: "2" }, protobufAccept);
    expect([page.length, head]).toMatchObject([
      2,
      { metadata: { continue: expect.any(String), remainingItemCount: 1 } },
    ]);
  });

  test("is read alike in watches, with bookmarks and deletions", async () => {
    const { metadata } = await create();
    await cluster.admin.delete(kinds.Node, { name: "full" });
    await cluster.admin.patch(kinds.Node, { name: "full" }, "merge", { metadata: { finalizers: null } });
    const initial = {
      watch: "true",
      sendInitialEvents: "true",
      resourceVersionMatch: "NotOlderThan",
      allowWatchBookmarks: "true",
      timeoutSeconds: "2",
    };
    const changes = { watch: "true", resourceVersion: metadata?.resourceVersion ?? "", timeoutSeconds: "2" };
    for (const [query, types] of [
      [initial, ["ADDED", "ADDED", "BOOKMARK"]],
      [changes, ["MODIFIED", "DELETED"]],
    ] as const) {
      const [fromProtobuf, fromJson] = await Promise.all([ask(query, protobufAccept), ask(query, json)]);
      expect([fromProtobuf, fromJson].map(isProtobuf)).toEqual([true, false]);
      const [read, expected] = await Promise.all([events(fromProtobuf), events(fromJson)]);
      expect(read.slice(0, types.length)).toMatchObject(types.map((type) => ({ type })));
      expect(withoutVersions(read)).toStrictEqual(withoutVersions(expected));
    }
  });

  test("is missing with the same error, from the reply and from a watch that is too old", async () => {
    const failure = async (accept: string): Promise<unknown> => {
      const error: unknown = await ask({}, accept, `${path}/none`).catch((cause: unknown) => cause);
      if (!(error instanceof ApiError)) return undefined;
      const { status: code, reason, message } = error;
      return { code, reason, message };
    };
    expect(await failure(protobufAccept)).toEqual(await failure(json));
    expect(await failure(protobufAccept)).toMatchObject({ code: 404, reason: "NotFound" });
    const future = { watch: "true", resourceVersion: "999999999", timeoutSeconds: "1" };
    const gone = async (accept: string): Promise<unknown> => events(await ask(future, accept)).catch(String);
    expect(await gone(protobufAccept)).toEqual(await gone(json));
  });
});

/** Bookmarks have the version that the server has come to. */
const withoutVersions = (read: readonly unknown[]): unknown =>
  JSON.parse(JSON.stringify(read).replaceAll(/("type":"BOOKMARK".*?"resourceVersion":)"\d+"/gu, "$1null"));
