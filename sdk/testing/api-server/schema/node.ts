import { kindSchema } from "./metadata.ts";
import {
  atomic,
  boolean,
  integer,
  listBy,
  mapOf,
  need,
  pointer,
  quantity,
  record,
  type Schema,
  setOf,
  text,
  time,
} from "./schema.ts";

const core = "io.k8s.api.core.v1";

const taint = record(`${core}.Taint`, { key: need(text), value: text, effect: need(text), timeAdded: time });

const configSource = record(`${core}.NodeConfigSource`, {
  configMap: record(`${core}.ConfigMapNodeConfigSource`, {
    namespace: need(text),
    name: need(text),
    uid: text,
    resourceVersion: text,
    kubeletConfigKey: need(text),
  }),
});

const spec = record(`${core}.NodeSpec`, {
  podCIDR: text,
  podCIDRs: setOf(text),
  providerID: text,
  unschedulable: boolean,
  taints: atomic(taint),
  configSource,
  externalID: text,
});

/** A condition as nodes and namespaces write it, with their own extra times. */
export const plainCondition = (name: string, times: Readonly<Record<string, Schema>>): Schema =>
  record(`${core}.${name}`, { type: need(text), status: need(text), ...times, reason: text, message: text });

const nodeInfo = record(`${core}.NodeSystemInfo`, {
  machineID: need(text),
  systemUUID: need(text),
  bootID: need(text),
  kernelVersion: need(text),
  osImage: need(text),
  containerRuntimeVersion: need(text),
  kubeletVersion: need(text),
  kubeProxyVersion: need(text),
  operatingSystem: need(text),
  architecture: need(text),
  swap: record(`${core}.NodeSwapStatus`, { capacity: pointer(integer) }),
});

const runtimeHandler = record(`${core}.NodeRuntimeHandler`, {
  name: need(text),
  features: record(`${core}.NodeRuntimeHandlerFeatures`, {
    recursiveReadOnlyMounts: pointer(boolean),
    userNamespaces: pointer(boolean),
  }),
});

const status = record(`${core}.NodeStatus`, {
  capacity: mapOf(quantity),
  allocatable: mapOf(quantity),
  phase: text,
  conditions: listBy(
    ["type"],
    plainCondition("NodeCondition", { lastHeartbeatTime: need(time), lastTransitionTime: need(time) }),
  ),
  addresses: listBy(["type"], record(`${core}.NodeAddress`, { type: need(text), address: need(text) })),
  daemonEndpoints: need(
    record(`${core}.NodeDaemonEndpoints`, {
      kubeletEndpoint: need(record(`${core}.DaemonEndpoint`, { Port: need(integer) })),
    }),
  ),
  nodeInfo: need(nodeInfo),
  images: atomic(record(`${core}.ContainerImage`, { names: need(atomic(text)), sizeBytes: integer })),
  volumesInUse: atomic(text),
  volumesAttached: atomic(record(`${core}.AttachedVolume`, { name: need(text), devicePath: need(text) })),
  config: record(`${core}.NodeConfigStatus`, {
    assigned: configSource,
    active: configSource,
    lastKnownGood: configSource,
    error: text,
  }),
  runtimeHandlers: atomic(runtimeHandler),
  features: record(`${core}.NodeFeatures`, { supplementalGroupsPolicy: pointer(boolean) }),
  declaredFeatures: atomic(text),
});

export const node = kindSchema(`${core}.Node`, { spec: need(spec), status: need(status) });
