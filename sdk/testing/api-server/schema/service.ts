import { condition, kindSchema } from "./metadata.ts";
import {
  atomic,
  boolean,
  integer,
  intOrString,
  listBy,
  mapOf,
  need,
  pointer,
  record,
  replacedSetOf,
  type Schema,
  text,
} from "./schema.ts";

const core = "io.k8s.api.core.v1";
const discovery = "io.k8s.api.discovery.v1";

const servicePort = record(`${core}.ServicePort`, {
  name: text,
  protocol: text,
  appProtocol: pointer(text),
  port: need(integer),
  targetPort: need(intOrString),
  nodePort: integer,
});

const spec = record(`${core}.ServiceSpec`, {
  ports: listBy(["port", "protocol"], servicePort, { protocol: "TCP" }),
  selector: mapOf(text),
  clusterIP: text,
  clusterIPs: atomic(text),
  type: text,
  externalIPs: atomic(text),
  sessionAffinity: text,
  loadBalancerIP: text,
  loadBalancerSourceRanges: atomic(text),
  externalName: text,
  externalTrafficPolicy: text,
  healthCheckNodePort: integer,
  publishNotReadyAddresses: boolean,
  sessionAffinityConfig: record(`${core}.SessionAffinityConfig`, {
    clientIP: record(`${core}.ClientIPConfig`, { timeoutSeconds: pointer(integer) }),
  }),
  ipFamilies: atomic(text),
  ipFamilyPolicy: pointer(text),
  allocateLoadBalancerNodePorts: pointer(boolean),
  loadBalancerClass: pointer(text),
  internalTrafficPolicy: pointer(text),
  trafficDistribution: pointer(text),
});

const ingress = record(`${core}.LoadBalancerIngress`, {
  ip: text,
  hostname: text,
  ipMode: pointer(text),
  ports: atomic(record(`${core}.PortStatus`, { port: need(integer), protocol: need(text), error: pointer(text) })),
});

const status = record(`${core}.ServiceStatus`, {
  loadBalancer: need(record(`${core}.LoadBalancerStatus`, { ingress: atomic(ingress) })),
  conditions: listBy(["type"], condition),
});

export const service = kindSchema(`${core}.Service`, { spec: need(spec), status: need(status) });

/** Points at another object. */
export const objectReference = record(`${core}.ObjectReference`, {
  kind: text,
  namespace: text,
  name: text,
  uid: text,
  apiVersion: text,
  resourceVersion: text,
  fieldPath: text,
});

const named = (name: string): Schema => atomic(record(`${discovery}.${name}`, { name: need(text) }));

const endpoint = record(`${discovery}.Endpoint`, {
  addresses: need(replacedSetOf(text)),
  conditions: need(
    record(`${discovery}.EndpointConditions`, {
      ready: pointer(boolean),
      serving: pointer(boolean),
      terminating: pointer(boolean),
    }),
  ),
  hostname: pointer(text),
  targetRef: objectReference,
  deprecatedTopology: mapOf(text),
  nodeName: pointer(text),
  zone: pointer(text),
  hints: record(`${discovery}.EndpointHints`, { forZones: named("ForZone"), forNodes: named("ForNode") }),
});

const endpointPort = record(`${discovery}.EndpointPort`, {
  name: pointer(text),
  protocol: pointer(text),
  port: pointer(integer),
  appProtocol: pointer(text),
});

export const endpointSlice = kindSchema(`${discovery}.EndpointSlice`, {
  addressType: need(text),
  endpoints: need(atomic(endpoint)),
  ports: need(atomic(endpointPort)),
});
