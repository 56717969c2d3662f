import { expect, test } from "bun:test";

import { defineWebhook } from "cloud-controller-host/sdk";
import { parseAllDocuments } from "yaml";

import { webhookManifest } from "../../host/cli/rbac.ts";

test("prints one registration per webhook with failurePolicy Fail", () => {
  const rules = [{ apiGroups: [""], apiVersions: ["v1"], resources: ["services"], operations: ["CREATE"] }] as const;
  const admit = () => ({ allowed: true });
  const text = webhookManifest(
    [
      defineWebhook({ name: "one", path: "/one", rules, admit }),
      defineWebhook({ name: "two", path: "/two", type: "mutating", rules, admit }),
    ],
    { name: "host", namespace: "kube-system" },
  );
  const documents = parseAllDocuments(text).map((document) => document.toJS());
  expect(documents.map(({ kind, metadata }) => [kind, metadata.name])).toEqual([
    ["ValidatingWebhookConfiguration", "host-one"],
    ["MutatingWebhookConfiguration", "host-two"],
  ]);
  expect(documents[0].webhooks).toEqual([
    {
      name: "one.host.kube-system.svc",
      clientConfig: { service: { name: "host", namespace: "kube-system", path: "/one", port: 443 } },
      rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["services"], operations: ["CREATE"] }],
      admissionReviewVersions: ["v1"],
      sideEffects: "None",
      failurePolicy: "Fail",
      timeoutSeconds: 10,
    },
  ]);
});
