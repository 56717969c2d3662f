import {
  isObject,
  type KubeObject,
  labels,
  type Node,
  type Service,
  type Taint,
  taints,
} from "cloud-controller-host/sdk";

export const finalizer = "service.kubernetes.io/load-balancer-cleanup";

export interface ServiceFields {
  readonly name?: string;
  readonly meta?: Service["metadata"];
  readonly spec?: Service["spec"];
  readonly status?: Service["status"];
}

/** A load balancer with one TCP port, unless said otherwise. */
export const aService = ({ name = "web", meta, spec, status }: ServiceFields = {}): Service => ({
  apiVersion: "v1",
  kind: "Service",
  metadata: { name, namespace: "default", ...meta },
  spec: { type: "LoadBalancer", ports: [{ port: 80, protocol: "TCP" }], ...spec },
  ...(status === undefined ? {} : { status }),
});

export interface NodeFields {
  readonly providerID?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly taints?: readonly Taint[];
  readonly ready?: "True" | "False";
  readonly otherCondition?: "True" | "False";
  readonly deletionTimestamp?: string;
  readonly internalIPs?: readonly string[];
  readonly externalIP?: string;
}

/** A node without a word said of anything that is not given. */
export const aNode = (name: string, fields: NodeFields = {}): Node => {
  const { providerID, ready, otherCondition, deletionTimestamp, internalIPs, externalIP } = fields;
  const addresses = [
    ...(internalIPs ?? []).map((address) => ({ type: "InternalIP", address })),
    ...(externalIP === undefined ? [] : [{ type: "ExternalIP", address: externalIP }]),
  ];
  const conditions = [
    ...(ready === undefined ? [] : [{ type: "Ready", status: ready }]),
    ...(otherCondition === undefined ? [] : [{ type: "Other", status: otherCondition }]),
  ];
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name,
      ...(fields.labels === undefined ? {} : { labels: fields.labels }),
      ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    },
    spec: {
      ...(providerID === undefined ? {} : { providerID }),
      ...(fields.taints === undefined ? {} : { taints: fields.taints }),
    },
    status: { conditions, ...(addresses.length === 0 ? {} : { addresses }) },
  };
};

export const excluded = (value = ""): Readonly<Record<string, string>> => ({
  [labels.excludeFromLoadBalancers]: value,
});
export const autoscalerTaint: Taint = { key: taints.toBeDeletedByAutoscaler, value: "1", effect: "NoSchedule" };
export const otherTaint: Taint = { key: "example.com/other", value: "1", effect: "NoSchedule" };

/** The body of a patch without the UID that each write of a Service names. */
export function withoutUid(body: unknown): unknown {
  const { metadata, ...rest }: KubeObject = isObject(body) ? body : {};
  const { uid: _uid, ...others } = metadata ?? {};
  return Object.keys(others).length === 0 ? rest : { metadata: others, ...rest };
}
