import { beforeEach, expect, test } from "bun:test";

import { ApiError, controllerNames, isNotFound, kinds, type Node, permissionVerbs } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { writeVerbs } from "./audit.ts";
import type { Cluster } from "./cluster.ts";
import { describeOnRealApiServer } from "./shared.ts";

const node = (name: string): Node => ({ metadata: { name } });

const refusal = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => "not refused",
    (error: unknown) => (error instanceof ApiError ? error.reason : error),
  );

describeOnRealApiServer("the control plane for tests", (cluster) => {
  beforeEach(() => cluster.cleanSlate());

  test("is a ready Kubernetes 1.36", async () => {
    expect(await cluster.admin.request("GET", "/readyz")).toBe("ok");
    expect(await cluster.admin.request("GET", "/version")).toMatchObject({ major: "1", minor: "36" });
  });

  test("denies what no role allows and allows what one does", async () => {
    const client = cluster.client("reader");
    expect(await refusal(client.list(kinds.Node))).toBe("Forbidden");
    await cluster.grant("reader", [
      { apiGroup: "", resources: ["nodes"], verbs: ["list"] },
      { apiGroup: "coordination.k8s.io", resources: ["leases"], verbs: ["get"], namespace: "kube-system" },
    ]);
    expect(await client.list(kinds.Node)).toEqual([]);
    expect(await refusal(client.create(kinds.Node, node("a")))).toBe("Forbidden");
    expect(await refusal(client.get(kinds.Lease, { namespace: "kube-system", name: "none" }))).toBe("NotFound");
    expect(await refusal(client.get(kinds.Lease, { namespace: "default", name: "none" }))).toBe("Forbidden");
  });

  test("revokes a permission that is no longer granted", async () => {
    await cluster.grant("former", [{ apiGroup: "", resources: ["nodes"], verbs: ["list"] }]);
    await cluster.grant("former", [{ apiGroup: "", resources: ["nodes"], verbs: ["get"] }]);
    const client = cluster.client("former");
    await eventually("it is refused", async () => (await refusal(client.list(kinds.Node))) === "Forbidden");
  });

  test("authenticates each user by client certificate, also when users alternate", async () => {
    for (let round = 0; round < 3; round++)
      for (const [user, group] of [
        ["ann", "blue"],
        ["ben", "red"],
      ] as const)
        expect(await whoAmI(cluster, user, group)).toMatchObject({
          username: user,
          groups: [group, "system:authenticated"],
        });
  });

  test("writes a kubeconfig that kubectl accepts", async () => {
    const kubeconfig = await cluster.kubeconfig("carla", ["system:masters"]);
    expect(await cluster.kubectl(kubeconfig, ["auth", "whoami", "--output=jsonpath={.status.userInfo.username}"])).toBe(
      "carla",
    );
    const manifest = JSON.stringify({ apiVersion: "v1", kind: "Node", metadata: { name: "applied" } });
    await cluster.kubectl(kubeconfig, ["apply", "--filename=-"], manifest);
    expect(await cluster.admin.get(kinds.Node, { name: "applied" })).toBeDefined();
  });

  test("counts the requests of each user by verb and resource", async () => {
    const user = "counted";
    await cluster.grant(user, [{ apiGroup: "", resources: ["nodes", "nodes/status"], verbs: permissionVerbs }]);
    const client = cluster.client(user);
    await client.create(kinds.Node, node("before"));
    const mark = await cluster.audit.mark();
    await client.list(kinds.Node);
    await client.list(kinds.Node);
    await client.patch(
      kinds.Node,
      { name: "before" },
      "merge",
      { status: { phase: "Running" } },
      { subresource: "status" },
    );
    await cluster.admin.list(kinds.Node);
    expect(await cluster.audit.counts({ user, since: mark })).toEqual({ "list nodes": 2, "patch nodes/status": 1 });
    expect(await cluster.audit.requests({ user, verbs: writeVerbs })).toMatchObject([
      { verb: "create", resource: "nodes", code: 201, body: { metadata: { name: "before" } } },
      { verb: "patch", resource: "nodes/status", name: "before" },
    ]);
  });

  test("keeps the taints of a new node as kubelet wrote them", async () => {
    const created = await cluster.admin.create(kinds.Node, node("plain"));
    expect(created.spec?.taints).toBeUndefined();
  });

  test("gives a Service addresses of both families", async () => {
    const { spec } = await cluster.admin.create(kinds.Service, {
      metadata: { name: "web", namespace: "default" },
      spec: { type: "LoadBalancer", ipFamilyPolicy: "RequireDualStack", ports: [{ port: 80 }] },
    });
    expect(spec?.ipFamilies).toEqual(["IPv4", "IPv6"]);
  });

  test("deletes on request all objects of a test, with or without finalizers", async () => {
    const { admin } = cluster;
    await admin.create(kinds.Node, { metadata: { name: "held", finalizers: ["example.com/held"] } });
    await admin.create(kinds.Namespace, { metadata: { name: "mine" } });
    await admin.create(kinds.ConfigMap, { metadata: { name: "notes", namespace: "mine" } });
    await admin.create(kinds.Lease, { metadata: { name: controllerNames.cloudNode, namespace: "kube-system" } });
    await cluster.cleanSlate();
    expect(await admin.list(kinds.Node)).toEqual([]);
    expect(await admin.get(kinds.Namespace, { name: "mine" }).catch(isNotFound)).toBe(true);
    const leases = await admin.list(kinds.Lease);
    expect(leases.map(({ metadata }) => metadata?.name)).not.toContain(controllerNames.cloudNode);
    expect(await admin.get(kinds.Service, { namespace: "default", name: "kubernetes" })).toBeDefined();
  });

  test("runs upstream's kube-controller-manager against it", async () => {
    await using manager = await cluster.startKubeControllerManager({ controllers: ["serviceaccount-controller"] });
    const made = { namespace: "default", name: "default" };
    const account = (): Promise<unknown> => cluster.admin.get(kinds.ServiceAccount, made);
    await eventually("it makes service accounts", account, 30_000).catch(async (error: unknown) => {
      throw new Error(`kube-controller-manager: ${await manager.lastWords()}`, { cause: error });
    });
  });
});

async function whoAmI(cluster: Cluster, user: string, group: string): Promise<unknown> {
  const review = await cluster
    .client(user, [group])
    .request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {
      apiVersion: "authentication.k8s.io/v1",
      kind: "SelfSubjectReview",
    });
  return typeof review === "object" && review !== null && "status" in review
    ? Reflect.get(Object(review.status), "userInfo")
    : review;
}
