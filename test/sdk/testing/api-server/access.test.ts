import { expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";

import { SandboxApiServer } from "../../../../sdk/testing/api-server/index.ts";

interface Reply {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

async function open() {
  const server = await SandboxApiServer.start();
  const send = async (path: string, headers: Readonly<Record<string, string>> = {}, body?: object): Promise<Reply> => {
    const reply = await fetch(server.url + path, {
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      headers: { "content-type": "application/json", ...headers },
      tls: { ca: server.ca },
    });
    return { status: reply.status, body: JSON.parse(await reply.text()) };
  };
  const admin = { authorization: `Bearer ${server.tokens.of("admin")}` };
  const as = (user: string, ...groups: readonly string[]) => ({
    ...admin,
    "impersonate-user": user,
    ...(groups.length === 0 ? {} : { "impersonate-group": groups.join(", ") }),
  });
  const canI = async (headers: Readonly<Record<string, string>>, resourceAttributes: object): Promise<unknown> =>
    (await send("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", headers, { spec: { resourceAttributes } }))
      .body["status"];
  return { server, send, admin, as, canI, [Symbol.asyncDispose]: () => server.close() };
}

test("denies anonymous users everything but health and version", async () => {
  await using lab = await open();
  const refused = await lab.send("/api/v1/nodes");
  expect(refused).toMatchObject({
    status: 403,
    body: {
      reason: "Forbidden",
      message:
        'nodes is forbidden: User "system:anonymous" cannot list resource "nodes" in API group "" at the cluster scope',
    },
  });
  expect((await lab.send("/apis")).body["message"]).toBe('forbidden: User "system:anonymous" cannot get path "/apis"');
  const review = { spec: { user: "system:anonymous", groups: ["system:unauthenticated"], nonResourceAttributes: {} } };
  for (const [path, allowed] of [
    ["/metrics", false],
    ["/statusz", false],
    ["/healthz", true],
  ] as const) {
    review.spec.nonResourceAttributes = { path, verb: "get" };
    const reply = await lab.send("/apis/authorization.k8s.io/v1/subjectaccessreviews", lab.admin, review);
    expect([path, reply.body["status"]]).toEqual([path, { allowed }]);
  }
});

test("--as impersonates: the request has the permissions and the name of that user", async () => {
  await using lab = await open();
  const who = await lab.send("/apis/authentication.k8s.io/v1/selfsubjectreviews", lab.as("bob"), {});
  expect(who.body["status"]).toEqual({ userInfo: { username: "bob", groups: ["system:authenticated"] } });
  expect((await lab.send("/api/v1/namespaces/default/pods", lab.as("bob"))).body["message"]).toBe(
    'pods is forbidden: User "bob" cannot list resource "pods" in API group "" in the namespace "default"',
  );
  expect(await lab.canI(lab.as("bob"), { verb: "create", resource: "pods" })).toEqual({ allowed: false });
  expect(await lab.canI(lab.as("bob", "system:masters"), { verb: "create", resource: "pods" })).toEqual({
    allowed: true,
  });
  const anonymous = lab.as("system:anonymous");
  expect((await lab.send("/apis/authentication.k8s.io/v1/selfsubjectreviews", anonymous, {})).status).toBe(403);
  const robot = "system:serviceaccount:default:robot";
  expect((await lab.send("/api/v1/nodes", lab.as(robot))).status).toBe(403);
  expect(lab.server.requests.list().at(-1)?.username).toBe(robot);
});

test("only an administrator may impersonate", async () => {
  await using lab = await open();
  lab.server.create(kinds.ServiceAccount, { metadata: { name: "robot", namespace: "default" } });
  const token = lab.server.tokens.issueFor("default", "robot", "1", Date.now() + 60_000);
  const refused = await lab.send("/api/v1/nodes", { authorization: `Bearer ${token}`, "impersonate-user": "admin" });
  expect(refused.body["message"]).toContain('cannot impersonate resource "users"');
  expect((await lab.send("/api/v1/nodes", { ...lab.admin, "impersonate-group": "a" })).status).toBe(400);
});

test("auth can-i --list returns the rules of the user", async () => {
  await using lab = await open();
  const rules = async (headers: Readonly<Record<string, string>>): Promise<unknown> =>
    (await lab.send("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", headers, { spec: { namespace: "a" } }))
      .body["status"];
  expect(await rules(lab.admin)).toMatchObject({
    incomplete: false,
    resourceRules: expect.arrayContaining([{ verbs: ["*"], apiGroups: ["*"], resources: ["*"] }]),
  });
  expect(JSON.stringify(await rules(lab.as("bob")))).not.toContain('"resources":["*"]');
});
