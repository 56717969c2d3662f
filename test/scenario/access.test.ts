import { expect, setDefaultTimeout, test } from "bun:test";

import { controllerNames } from "cloud-controller-host/sdk";

import { describeOnRealApiServer } from "../envtest/shared.ts";
import { simulateAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";
import { rolesOf } from "../kit/host-roles.ts";

setDefaultTimeout(120_000);

/** upstream: kubernetes `test/integration/serving/serving_test.go`, TestComponentSecureServingAndAuth. */
describeOnRealApiServer("authorization of requests to the host, decided by the API server", (cluster) => {
  const user = "access-host";

  async function start(stack: AsyncDisposableStack, ...flags: string[]): Promise<HostProcess> {
    const azure = stack.use(await simulateAzure());
    await cluster.grant(user, await rolesOf([controllerNames.cloudNode]));
    const kubeconfig = await cluster.kubeconfig(user);
    return stack.use(
      new HostProcess({
        flags: [
          `--kubeconfig=${kubeconfig}`,
          `--cloud-config=${azure.config}`,
          `--controllers=${controllerNames.cloudNode}`,
          "--authorization-always-allow-paths=/healthz,/readyz,/livez",
          ...flags,
        ],
      }),
    );
  }

  const isServing = (host: HostProcess): Promise<unknown> =>
    host.eventually("it serves", async () => (await host.get("/healthz")).status === 200);

  test("anonymous: health 200, metrics 403, and every always-allowed path", async () => {
    await using stack = new AsyncDisposableStack();
    const host = await start(stack);
    await isServing(host);
    for (const path of ["/livez", "/readyz"]) expect((await host.get(path)).status).toBe(200);
    const denied = await host.get("/metrics");
    expect(denied.status).toBe(403);
    expect(await denied.json()).toMatchObject({
      kind: "Status",
      reason: "Forbidden",
      message: 'forbidden: User "system:anonymous" cannot get path "/metrics"',
    });
    const allowing = await start(stack, "--authorization-always-allow-paths=/metrics");
    await allowing.eventually("it serves", async () => (await allowing.get("/metrics")).status === 200);
  });

  test("client certificates of the cluster: a user in system:masters reads metrics, an unauthorized one is named and denied", async () => {
    await using stack = new AsyncDisposableStack();
    const host = await start(stack);
    await isServing(host);
    const metricsAs = async (name: string, groups: readonly string[]): Promise<Response> => {
      const { certPem, keyPem } = await cluster.certificate(name, groups);
      return host.get("/metrics", { tls: { cert: certPem, key: keyPem } });
    };
    expect((await metricsAs("root", ["system:masters"])).status).toBe(200);
    const denied = await metricsAs("ann", []);
    expect(denied.status).toBe(403);
    expect(await denied.text()).toContain('User \\"ann\\" cannot get path \\"/metrics\\"');
  });

  test("a bearer token that the API server does not know is 401", async () => {
    await using stack = new AsyncDisposableStack();
    const host = await start(stack);
    await isServing(host);
    const answer = await host.get("/metrics", { headers: { Authorization: "Bearer not-a-token" } });
    expect(answer.status).toBe(401);
  });

  test("an unreachable authorization API server: health 200, metrics 500", async () => {
    await using stack = new AsyncDisposableStack();
    const azure = stack.use(await simulateAzure());
    const broken = `${azure.folder}/broken.kubeconfig`;
    const text = await Bun.file(await cluster.kubeconfig(user)).text();
    await Bun.write(broken, text.replace(/https:\/\/127\.0\.0\.1:\d+/g, "https://127.0.0.1:1"));
    const host = await start(stack, `--authorization-kubeconfig=${broken}`);
    await isServing(host);
    expect((await host.get("/metrics")).status).toBe(500);
  });
});
