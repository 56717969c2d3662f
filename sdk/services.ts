import ipaddr from "ipaddr.js";

import { CodedError, messageOf } from "./errors.ts";
import type { Service } from "./kinds.ts";
import { annotationOf } from "./labels.ts";

/**
 * What every cloud must read out of a Service in the same way. Source: kubernetes/cloud-provider
 * `service/helpers/helper.go` and `cloud.go`.
 */

const sourceRangesAnnotation = "service.beta.kubernetes.io/load-balancer-source-ranges";
const everyone = "0.0.0.0/0";

/**
 * The CIDRs that may reach the load balancer, host bits cleared, each once: those of the spec, else those of the
 * annotation, else everyone. Throws, naming the field or the annotation, when one of them is no CIDR.
 */
export function loadBalancerSourceRanges(service: Service): readonly string[] {
  const ofSpec = service.spec?.loadBalancerSourceRanges ?? [];
  if (ofSpec.length > 0) return readRanges("spec.loadBalancerSourceRanges", ofSpec);
  const annotation = annotationOf(service, sourceRangesAnnotation)?.trim() || everyone;
  return readRanges(`annotation ${sourceRangesAnnotation}`, annotation.split(","));
}

/** Whether the ranges let everybody in. Only the whole of IPv4 counts, as upstream. */
export const allowsAll = (ranges: readonly string[]): boolean => ranges.includes(everyone);

function readRanges(where: string, texts: readonly string[]): readonly string[] {
  try {
    return [...new Set(texts.map((text) => network(text.trim())))];
  } catch (error) {
    const example = "10.0.0.0/24,192.168.2.0/24";
    throw new CodedError("BadSourceRanges", `${where}: ${messageOf(error)}; ranges look like ${example}`, {
      cause: error,
    });
  }
}

function network(text: string): string {
  const known = ipaddr.IPv4.isValidCIDRFourPartDecimal(text) || ipaddr.IPv6.isValidCIDR(text);
  if (!known) throw new CodedError("BadCIDR", `${JSON.stringify(text)} is not a CIDR`);
  const family = text.includes(":") ? ipaddr.IPv6 : ipaddr.IPv4;
  return `${family.networkAddressFromCIDR(text).toString()}/${text.split("/")[1]}`;
}

/** Whether nodes without an endpoint of the Service must get none of its traffic. */
export const requestsOnlyLocalTraffic = ({ spec }: Service): boolean =>
  (spec?.type === "LoadBalancer" || spec?.type === "NodePort") && spec.externalTrafficPolicy === "Local";

/** Whether the load balancer must ask each node if it has an endpoint. */
export const needsHealthCheck = (service: Service): boolean =>
  service.spec?.type === "LoadBalancer" && requestsOnlyLocalTraffic(service);

/** Where a node answers whether it has an endpoint, or undefined where nobody needs to ask. */
export function serviceHealthCheck(service: Service): { readonly path: string; readonly port: number } | undefined {
  const port = needsHealthCheck(service) ? service.spec?.healthCheckNodePort : undefined;
  return port ? { path: "/healthz", port } : undefined;
}

/** upstream: `cloudprovider.DefaultLoadBalancerName`: `a` and the UID without hyphens, at most 32 characters. */
export const defaultLoadBalancerName = (service: Service): string =>
  `a${(service.metadata?.uid ?? "").replaceAll("-", "")}`.slice(0, 32);
