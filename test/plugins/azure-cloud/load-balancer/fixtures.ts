import type { CloudContext, Service } from "cloud-controller-host/sdk";

import { decodeConfig } from "../../../../plugins/azure-cloud/config/decode.ts";
import type { ServiceIntent } from "../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import {
  type PlannerConfig,
  plannerConfig,
} from "../../../../plugins/azure-cloud/load-balancer/model/planner-config.ts";

const baseKeys = {
  subscriptionId: "sub0",
  resourceGroup: "rg0",
  location: "eastus",
  vnetName: "vnet0",
  subnetName: "subnet0",
  securityGroupName: "nsg0",
  primaryScaleSetName: "vmss0",
  useManagedIdentityExtension: true,
};

/** The planner's config of a cluster `kubernetes`, from keys of the cloud config. */
export function plannerConfigOf(
  keys: Readonly<Record<string, unknown>> = {},
  clusterName = "kubernetes",
  deployment: Pick<CloudContext, "shard" | "shards"> = {},
): PlannerConfig {
  const decoded = decodeConfig({ ...baseKeys, ...keys }, {});
  if (!decoded.ok) throw new Error(decoded.problems.join("; "));
  return plannerConfig(decoded.value, { clusterName, ...deployment });
}

export interface ServiceShape {
  readonly name?: string;
  readonly uid?: string;
  /** Keys without `service.beta.kubernetes.io/`. */
  readonly annotations?: Readonly<Record<string, string>>;
  readonly labels?: Readonly<Record<string, string>>;
  readonly spec?: Partial<NonNullable<Service["spec"]>>;
  readonly ingress?: readonly string[];
}

/** A Service of type LoadBalancer with TCP port 80; its UID is its name unless set. */
function serviceOf({ name = "web", uid = name, annotations = {}, labels, spec, ingress }: ServiceShape): Service {
  const prefixed = Object.entries(annotations).map(([key, value]) => [`service.beta.kubernetes.io/${key}`, value]);
  return {
    metadata: { name, namespace: "default", uid, annotations: Object.fromEntries(prefixed), ...(labels && { labels }) },
    spec: {
      type: "LoadBalancer",
      ports: [{ name: "http", protocol: "TCP", port: 80, targetPort: 80, nodePort: 30080 }],
      ipFamilies: ["IPv4"],
      sessionAffinity: "None",
      externalTrafficPolicy: "Cluster",
      ...spec,
    },
    status: { loadBalancer: ingress === undefined ? {} : { ingress: ingress.map((ip) => ({ ip })) } },
  };
}

export function intentOf(shape: ServiceShape & Partial<Omit<ServiceIntent, "service">>): ServiceIntent {
  const { action = "ensure", nodes = [], failed } = shape;
  return { service: serviceOf(shape), action, nodes, ...(failed && { failed }) };
}

/** The condition that records these addresses, separated by commas, at a Service. */
export const recordOf = (addresses: string) => ({
  type: "AdditionalAddressesOpen",
  status: "True" as const,
  reason: "SecurityRulesWritten",
  message: addresses,
  lastTransitionTime: "2026-01-01T00:00:00Z",
});
