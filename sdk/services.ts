import { parseCIDR } from "./cidr.ts";
import { CodedError, messageOf } from "./errors.ts";
import type { Service } from "./kinds.ts";
import { annotationOf } from "./labels.ts";

/** Service helpers shared by all clouds. Source: kubernetes/cloud-provider `service/helpers/helper.go`, `cloud.go`. */

const sourceRangesAnnotation = "service.beta.kubernetes.io/load-balancer-source-ranges";
const allAddresses = "0.0.0.0/0";

/**
 * The CIDRs that may reach the load balancer, canonical and without duplicates: from the spec, else from the
 * annotation, else 0.0.0.0/0. Throws `InvalidSourceRanges`, which names the field or the annotation.
 */
export function loadBalancerSourceRanges(service: Service): readonly string[] {
  const fromSpec = service.spec?.loadBalancerSourceRanges ?? [];
  if (fromSpec.length > 0) return parseRanges("spec.loadBalancerSourceRanges", fromSpec);
  const annotation = annotationOf(service, sourceRangesAnnotation)?.trim() || allAddresses;
  return parseRanges(`annotation ${sourceRangesAnnotation}`, annotation.split(","));
}

/** True when the ranges contain 0.0.0.0/0. `::/0` alone is not enough, as upstream. */
export const allowsAll = (ranges: readonly string[]): boolean => ranges.includes(allAddresses);

function parseRanges(where: string, texts: readonly string[]): readonly string[] {
  try {
    return [...new Set(texts.map((text) => parseCIDR(text.trim()).text))];
  } catch (error) {
    const example = "10.0.0.0/24,192.168.2.0/24";
    throw new CodedError("InvalidSourceRanges", `${where}: ${messageOf(error)}; ranges look like ${example}`, {
      cause: error,
    });
  }
}

/** True when only nodes with a local endpoint may receive the Service's traffic. */
export const requestsOnlyLocalTraffic = ({ spec }: Service): boolean =>
  (spec?.type === "LoadBalancer" || spec?.type === "NodePort") && spec.externalTrafficPolicy === "Local";

/** True when the load balancer must probe each node for a local endpoint. */
export const needsHealthCheck = (service: Service): boolean =>
  service.spec?.type === "LoadBalancer" && requestsOnlyLocalTraffic(service);

/** kube-proxy's health endpoint for the Service, or undefined when the Service needs no health check. */
export function serviceHealthCheck(service: Service): { readonly path: string; readonly port: number } | undefined {
  const port = needsHealthCheck(service) ? service.spec?.healthCheckNodePort : undefined;
  return port ? { path: "/healthz", port } : undefined;
}

/** upstream: `cloudprovider.DefaultLoadBalancerName`: `a` and the UID without hyphens, at most 32 characters. */
export const defaultLoadBalancerName = (service: Service): string =>
  `a${(service.metadata?.uid ?? "").replaceAll("-", "")}`.slice(0, 32);
