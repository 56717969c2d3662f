import { annotationOf, defineWebhook, type Service } from "cloud-controller-host/sdk";

const annotation = "service.beta.kubernetes.io/azure-load-balancer-internal";

/** Denies public load balancers: a Service of type LoadBalancer must have the annotation for an internal one. */
export default defineWebhook<Service>({
  name: "internal-load-balancers",
  path: "/internal-load-balancers",
  rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["services"], operations: ["CREATE", "UPDATE"] }],
  admit({ object }) {
    if (object?.spec?.type !== "LoadBalancer") return { allowed: true };
    if (annotationOf(object, annotation) === "true") return { allowed: true };
    return {
      allowed: false,
      message: `public load balancers are not allowed: set the annotation ${annotation}="true"`,
    };
  },
});
