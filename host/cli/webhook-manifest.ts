import type { WebhookPlugin } from "cloud-controller-host/sdk";
import { stringify } from "yaml";

const kindOf = {
  validating: "ValidatingWebhookConfiguration",
  mutating: "MutatingWebhookConfiguration",
} as const;

/**
 * The registration of webhooks as YAML documents, for a Service of that name in `namespace` on port 443. The CA that signed the
 * serving certificate is to be filled in as `caBundle`.
 */
export function webhookManifest(
  webhooks: readonly WebhookPlugin[],
  service: { readonly name: string; readonly namespace: string },
): string {
  return webhooks
    .map(({ name, path, type, rules }) =>
      stringify({
        apiVersion: "admissionregistration.k8s.io/v1",
        kind: kindOf[type],
        metadata: { name: `${service.name}-${name}` },
        webhooks: [
          {
            name: `${name}.${service.name}.${service.namespace}.svc`,
            clientConfig: { service: { ...service, path, port: 443 } },
            rules: rules.map((rule) => ({ ...rule })),
            admissionReviewVersions: ["v1"],
            sideEffects: "None",
            failurePolicy: "Fail",
            timeoutSeconds: 10,
          },
        ],
      }),
    )
    .join("---\n");
}
