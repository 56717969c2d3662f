import type { Defects } from "./defect.ts";

const controller = "plugins/service-lb";

/** Of the service controller. */
export const serviceDefects: Defects = {
  "removes the finalizer before the load balancer": {
    file: `${controller}/sync.ts`,
    from: "  if ((await existing(parts, service, signal)) !== undefined) {\n    throwIfStopping(signal);",
    to: "  await writes.removeFinalizer(service);\n  if ((await existing(parts, service, signal)) !== undefined) {\n    throwIfStopping(signal);",
    needs: ["deleteService", "killAtWrite"],
    kept: "a Service is deleted, and the process killed at its next write",
  },
  "removes the finalizer and nothing else": {
    file: `${controller}/sync.ts`,
    from: "  if ((await existing(parts, service, signal)) !== undefined) {\n    throwIfStopping(signal);",
    to: "  if (signal.aborted) {\n    throwIfStopping(signal);",
    needs: ["deleteService"],
    kept: "Services go",
  },
  "creates load balancers without a finalizer": {
    file: `${controller}/sync.ts`,
    from: "await parts.writes.addFinalizer(service);",
    to: "",
    needs: ["deleteService", "killHost"],
    kept: "a Service is deleted while no process runs",
  },
  "ignores a Service that vanished without its finalizer": {
    file: `${controller}/sync.ts`,
    from: "    if (cached !== undefined) await deleteVanished(parts, cached, signal);\n    forget(parts, key, cached);",
    to: "    forget(parts, key, cached);",
    needs: ["deleteService", "requests"],
  },
  "ignores that a Service was created again under its name": {
    file: `${controller}/sync.ts`,
    from: "if (cached !== undefined && cached.metadata?.uid !== service.metadata?.uid)\n    await deleteVanished(parts, cached, signal);",
    to: "",
    needs: ["recreateService"],
  },
  "does not write the address": {
    file: `${controller}/sync.ts`,
    from: "if (status !== undefined) await parts.writes.status(service, status);",
    to: "",
    kept: "calm",
  },
  "leaves the address of a Service that wants none": {
    file: `${controller}/sync.ts`,
    from: "await parts.writes.status(service, {});",
    to: "",
    needs: ["flipService"],
  },
  "fails without an event": {
    file: `${controller}/sync.ts`,
    from: "parts.events.syncFailed(service, error);",
    to: "",
    needs: ["changeService"],
    kept: "a Service is refused",
  },
  "does not see that a node left and returned within an ensure": {
    file: `${controller}/sync.ts`,
    from: 'cache.nodesSynced(key, parts.nodeChanges() === changes ? members : "changed");',
    to: "cache.nodesSynced(key, members);",
    needs: ["returnNodeAtWrite", "createService"],
  },
  "does not see that a node left and returned within an update": {
    file: `${controller}/node-sync.ts`,
    from: 'cache.nodesSynced(key, parts.nodeChanges() === changes ? set.members : "changed");',
    to: "cache.nodesSynced(key, set.members);",
    needs: ["returnNodeAtWrite"],
  },
  "takes nodes that are not ready out of pools": {
    file: `${controller}/nodes.ts`,
    from: "  (node) => node.metadata?.deletionTimestamp === undefined,\n",
    to: '  (node) => node.metadata?.deletionTimestamp === undefined,\n  (node) => node.status?.conditions?.some((one) => one.type === "Ready" && one.status === "True") === true,\n',
    needs: ["stopNode"],
    kept: "a VM is stopped",
  },
  "does not retry an update of nodes": {
    file: `${controller}/node-sync.ts`,
    from: "if (wait === undefined) backlog.add(key);\n    else backlog.addAfter(key, wait);",
    to: "",
    needs: ["joinNodes", "failOperations"],
  },
  "notes nodes as synced whatever became of them": {
    file: `${controller}/node-sync.ts`,
    from: "    metrics.nodeSyncErrors.inc();\n",
    to: "    metrics.nodeSyncErrors.inc();\n    cache.nodesSynced(key, set.members); return;\n",
    needs: ["joinNodes", "failOperations"],
  },
  "loses a Service that is locked": {
    file: `${controller}/keyed-mutex.ts`,
    from: "for (const other of waiting) this.#offer(other, key);",
    to: "",
    needs: ["joinNodes", "changeService", "requests"],
  },
  "does not notice that a node has got its provider ID": {
    file: `${controller}/nodes.ts`,
    from: "|| targetOf(before) !== targetOf(after);",
    to: "|| false;",
    needs: ["joinNodes"],
  },
  "does not notice that a node has got its addresses": {
    file: `${controller}/nodes.ts`,
    from: 'return [spec?.providerID ?? "", ...internal.map(({ address }) => address)].join(" ");',
    to: 'return [spec?.providerID ?? "", ...internal.slice(internal.length)].join(" ");',
    needs: ["joinNodes"],
    kept: "nodes come, of node IPs",
  },
  "does not notice that a node was deleted": {
    file: `${controller}/controller.ts`,
    from: "    deleted: sync,\n",
    to: "",
    needs: ["loseNode"],
    kept: "a VM goes, of node IPs",
  },
  "does not follow a change of ports": {
    file: `${controller}/predicates.ts`,
    from: '  { change: "ports", of: spec((of) => of.ports?.map(portFacts) ?? []) },\n',
    to: "",
    needs: ["changeService"],
    kept: "Services change",
  },
  "does not follow a change of source ranges": {
    file: `${controller}/predicates.ts`,
    from: '  { change: "loadBalancerSourceRanges", of: spec((of) => of.loadBalancerSourceRanges ?? []) },\n',
    to: "",
    needs: ["changeService"],
    kept: "Services change",
  },
  "does not follow a change of session affinity": {
    file: `${controller}/predicates.ts`,
    // Without one of them, the other follows it.
    from: '  { change: "sessionAffinity", of: spec((of) => of.sessionAffinity) },\n  { change: "sessionAffinityConfig", of: spec((of) => of.sessionAffinityConfig) },\n',
    to: "",
    needs: ["changeService"],
    kept: "Services change",
  },
  "does not follow a change of annotations": {
    file: `${controller}/predicates.ts`,
    from: '  { change: "annotations", of: ({ metadata }) => ({ ...metadata?.annotations, [markKey]: undefined }) },\n',
    to: "",
    needs: ["changeService"],
    kept: "Services change",
  },
  "does not clean up after a change of type": {
    file: `${controller}/predicates.ts`,
    from: "(service.metadata?.deletionTimestamp !== undefined || !hasType(service)) &&",
    to: "service.metadata?.deletionTimestamp !== undefined &&",
    needs: ["flipService"],
    kept: "a Service changes its type while no process runs",
  },
  "closes the ports of a Service with the cleanup of its predecessor": {
    file: "plugins/azure-cloud/load-balancer/plan/security-group/plan.ts",
    from: "(service) => !ensured.has(keyOf(service)) && !planned.has(identityOf(service)),",
    to: "(service) => !ensured.has(keyOf(service)) && ![...planned].some((one) => one.startsWith(`${keyOf(service)} `)),",
    needs: ["forceDelete", "changeService"],
  },
};
