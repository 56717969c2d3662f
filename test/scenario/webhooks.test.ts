import { expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

import { freePort } from "../envtest/free-port.ts";
import { describeOnRealApiServer } from "../envtest/shared.ts";
import { simulateAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";

setDefaultTimeout(120_000);

const examples = join(import.meta.dir, "../../sdk/examples");

describeOnRealApiServer("an admission webhook", (cluster) => {
  test("is called by kube-apiserver and decides", async () => {
    await using stack = new AsyncDisposableStack();
    const folder = await mkdtemp(join(tmpdir(), "webhooks-"));
    stack.defer(() => rm(folder, { recursive: true, force: true }));
    const azure = stack.use(await simulateAzure());
    const admin = await cluster.kubeconfig("admin", ["system:masters"]);
    const port = freePort();
    const host = stack.use(
      new HostProcess({
        flags: [
          `--kubeconfig=${admin}`,
          `--cloud-config=${azure.config}`,
          "--controllers=cloud-node-controller",
          `--plugin-dir=${examples}`,
          "--webhooks=internal-load-balancers",
          "--feature-gates=CloudControllerManagerWebhook=true",
          "--webhook-bind-address=127.0.0.1",
          `--webhook-secure-port=${port}`,
          `--webhook-cert-dir=${folder}`,
        ],
      }),
    );
    const certificate = join(folder, "cloud-controller-manager-webhook.crt");
    const caBundle = await eventually(
      "the webhook is served",
      async () => {
        if (host.lines("Serving admission webhooks").length === 0) return undefined;
        return (await readFile(certificate)).toString("base64");
      },
      40_000,
    );
    const configuration = {
      apiVersion: "admissionregistration.k8s.io/v1",
      kind: "ValidatingWebhookConfiguration",
      metadata: { name: "internal-load-balancers" },
      webhooks: [
        {
          name: "internal-load-balancers.example.com",
          clientConfig: { url: `https://127.0.0.1:${port}/internal-load-balancers`, caBundle },
          rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["services"], operations: ["CREATE", "UPDATE"] }],
          admissionReviewVersions: ["v1"],
          sideEffects: "None",
          failurePolicy: "Fail",
        },
      ],
    };
    await cluster.kubectl(admin, ["apply", "-f", "-"], JSON.stringify(configuration));
    stack.defer(() =>
      cluster
        .kubectl(admin, ["delete", "validatingwebhookconfiguration", "internal-load-balancers"])
        .then(() => undefined),
    );
    const create = (name: string, annotations: object): Promise<string> =>
      cluster.kubectl(
        admin,
        ["create", "-f", "-"],
        JSON.stringify({
          apiVersion: "v1",
          kind: "Service",
          metadata: { name, namespace: "default", annotations },
          spec: { type: "LoadBalancer", ports: [{ port: 80 }], loadBalancerClass: "test.example.com/none" },
        }),
      );
    // Until the first generation is ready every request is refused with 503.
    const refusal = await eventually("the API server calls the webhook", () =>
      create(`public-${crypto.randomUUID().slice(0, 8)}`, {}).then(
        () => undefined,
        (error: unknown) => (String(error).includes("unable to handle the request") ? undefined : String(error)),
      ),
    );
    expect(refusal).toContain("denied the request: public load balancers are not allowed");
    expect(await create("internal", { "service.beta.kubernetes.io/azure-load-balancer-internal": "true" })).toContain(
      "created",
    );
    const metrics = await (await host.get("/metrics")).text();
    expect(metrics).toMatch(
      /cloud_provider_webhook_request_total\{code="200",webhook="internal-load-balancers"\} [1-9]/u,
    );
  });
});
