import { always, filled, list, map, message, required, set } from "./message.ts";

/*
 * The fields that informers keep of a Node. `metadata.managedFields` and `status.images` are not listed: the compaction drops them.
 * Source: the `protobuf` and `json` tags of k8s.io/api and k8s.io/apimachinery, 1.30 to 1.37.
 */

const ownerReference = message({
  1: always("kind", "word"),
  3: always("name", "text"),
  4: always("uid", "text"),
  5: always("apiVersion", "word"),
  6: set("controller", "boolean"),
  7: set("blockOwnerDeletion", "boolean"),
});

const objectMeta = message({
  1: filled("name", "text"),
  2: filled("generateName", "text"),
  3: filled("namespace", "word"),
  4: filled("selfLink", "text"),
  5: filled("uid", "text"),
  6: filled("resourceVersion", "text"),
  7: filled("generation", "integer"),
  8: filled("creationTimestamp", "time"),
  9: set("deletionTimestamp", "time"),
  10: set("deletionGracePeriodSeconds", "integer"),
  11: map("labels", "word"),
  12: map("annotations", "word"),
  13: list("ownerReferences", ownerReference),
  14: list("finalizers", "word"),
});

const taint = message({
  1: always("key", "word"),
  2: filled("value", "word"),
  3: always("effect", "word"),
  4: set("timeAdded", "foreignTime"),
});

const configSource = message({
  2: set(
    "configMap",
    message({
      1: always("namespace", "word"),
      2: always("name", "word"),
      3: filled("uid", "word"),
      4: filled("resourceVersion", "word"),
      5: always("kubeletConfigKey", "word"),
    }),
  ),
});

const nodeSpec = message({
  1: filled("podCIDR", "text"),
  2: filled("externalID", "text"),
  3: filled("providerID", "text"),
  4: filled("unschedulable", "boolean"),
  5: list("taints", taint),
  6: set("configSource", configSource),
  7: list("podCIDRs", "text"),
  8: set("podPreemptionPolicy", message({ 1: list("disableResizePreemption", "word") })),
});

const nodeCondition = message({
  1: always("type", "word"),
  2: always("status", "word"),
  3: always("lastHeartbeatTime", "foreignTime"),
  4: always("lastTransitionTime", "foreignTime"),
  5: filled("reason", "word"),
  6: filled("message", "word"),
});

const nodeInfo = message({
  1: always("machineID", "text"),
  2: always("systemUUID", "text"),
  3: always("bootID", "text"),
  4: always("kernelVersion", "word"),
  5: always("osImage", "word"),
  6: always("containerRuntimeVersion", "word"),
  7: always("kubeletVersion", "word"),
  8: always("kubeProxyVersion", "word"),
  9: always("operatingSystem", "word"),
  10: always("architecture", "word"),
  11: set("swap", message({ 1: set("capacity", "integer") })),
  12: set("runningInUserNamespace", "boolean"),
});

const runtimeHandler = message({
  1: always("name", "word"),
  2: set("features", message({ 1: set("recursiveReadOnlyMounts", "boolean"), 2: set("userNamespaces", "boolean") })),
});

const nodeStatus = message({
  1: map("capacity", "quantity"),
  2: map("allocatable", "quantity"),
  3: filled("phase", "word"),
  4: list("conditions", nodeCondition),
  5: list("addresses", message({ 1: always("type", "word"), 2: always("address", "text") })),
  6: always("daemonEndpoints", message({ 1: always("kubeletEndpoint", message({ 1: always("Port", "integer") })) })),
  7: always("nodeInfo", nodeInfo),
  9: list("volumesInUse", "text"),
  10: list("volumesAttached", message({ 1: always("name", "text"), 2: always("devicePath", "text") })),
  11: set(
    "config",
    message({
      1: set("assigned", configSource),
      2: set("active", configSource),
      3: set("lastKnownGood", configSource),
      4: filled("error", "word"),
    }),
  ),
  12: list("runtimeHandlers", runtimeHandler),
  13: set("features", message({ 1: set("supplementalGroupsPolicy", "boolean") })),
  14: list("declaredFeatures", "word"),
});

export const node = message({
  1: required("metadata", objectMeta),
  2: required("spec", nodeSpec),
  3: required("status", nodeStatus),
});
