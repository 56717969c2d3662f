import { afterAll, beforeAll, describe, expect, test } from "bun:test";

import { type Permission, type PermissionVerb, permissionVerbs } from "cloud-controller-host/sdk";

import { SandboxApiServer } from "../../../../../sdk/testing/api-server/index.ts";
import { describeOnRealApiServer } from "../../../../envtest/shared.ts";
import { ApiClient, apply, type Reply } from "../api-client.ts";
import { connectTo } from "../on-both.ts";

const configMaps = { apiGroup: "", resources: ["configmaps"] };
const status = { apiGroup: "", resources: ["nodes/status"] };
const leases = { apiGroup: "coordination.k8s.io", resources: ["leases"] };
const withVerbs = (...verbs: readonly PermissionVerb[]): readonly Permission[] =>
  [configMaps, leases, status].map((kind) => ({ ...kind, verbs }));
/** By user. */
const permissions = {
  writer: withVerbs("patch", "update"),
  creator: withVerbs("patch", "update", "create"),
} as const satisfies Readonly<Record<string, readonly Permission[]>>;
type User = keyof typeof permissions;

function writesByName(clientOf: (user: User) => ApiClient): void {
  const applied = (user: User, name: string): Promise<Reply> =>
    clientOf(user).send(
      "PATCH",
      `/api/v1/namespaces/default/configmaps/${name}?fieldManager=test&force=true`,
      { apiVersion: "v1", kind: "ConfigMap", metadata: { name }, data: { by: user } },
      { contentType: apply },
    );
  const put = (user: User, name: string): Promise<Reply> => {
    const lease = { metadata: { name, namespace: "default" }, spec: { holderIdentity: user } };
    return clientOf(user).send("PUT", `/apis/coordination.k8s.io/v1/namespaces/default/leases/${name}`, lease);
  };

  test("an apply that creates the object needs the permission to create it, and one that changes it does not", async () => {
    const name = `c-${crypto.randomUUID()}`;
    const refused = await applied("writer", name);
    expect([refused.status, refused.body.reason]).toEqual([403, "Forbidden"]);
    expect((await applied("creator", name)).status).toBe(201);
    const changed = await applied("writer", name);
    expect([changed.status, changed.body.data]).toEqual([200, { by: "writer" }]);
  });

  test("an apply of a status creates nothing, and needs no permission for that", async () => {
    const name = `n-${crypto.randomUUID()}`;
    const config = { apiVersion: "v1", kind: "Node", metadata: { name }, status: { phase: "Pending" } };
    const path = `/api/v1/nodes/${name}/status?fieldManager=test`;
    expect((await clientOf("writer").send("PATCH", path, config, { contentType: apply })).status).toBe(404);
  });

  test("a PUT that creates the object needs the permission to create it", async () => {
    const name = `l-${crypto.randomUUID()}`;
    expect((await put("writer", name)).status).toBe(403);
    expect((await put("creator", name)).status).toBe(201);
  });
}

describe("a write by name, on the sandbox", () => {
  let server: SandboxApiServer | undefined;
  beforeAll(async () => {
    server = await SandboxApiServer.start({
      authorizes: ({ username, group, resource, verb }) =>
        Object.entries(permissions).some(
          ([user, rules]) =>
            user === username &&
            rules.some(({ apiGroup, resources, verbs }) => {
              const known = permissionVerbs.find((each) => each === verb);
              return apiGroup === group && resources.includes(resource) && known !== undefined && verbs.includes(known);
            }),
        ),
    });
  });
  afterAll(() => server?.close());
  writesByName((user) => connectTo(server, user));
});

describeOnRealApiServer("a write by name, on a real API server", (cluster) => {
  const clients = new Map<string, ApiClient>();
  beforeAll(async () => {
    const { server, caPem } = await cluster.endpoint();
    for (const [user, rules] of Object.entries(permissions)) {
      await cluster.grant(user, rules);
      const { certPem, keyPem } = await cluster.certificate(user);
      clients.set(user, new ApiClient({ url: server, tls: { ca: caPem, cert: certPem, key: keyPem } }));
    }
  });
  writesByName((user) => clients.get(user) ?? connectTo(undefined));
});
