/** A change of the product's source that a simulation must find. */
interface Defect {
  readonly file: string;
  readonly from: string;
  readonly to: string;
}

const balancing = "plugins/azure-cloud/load-balancer";

/** Defects that the product had once or might have, by what they do. */
export const defects: Readonly<Record<string, Defect>> = {
  "writes without holding the lease": {
    file: "host/generation/scope/fence.ts",
    from: 'return this.#safelyHeld() ? undefined : "the leader election lease is not safely held";',
    to: "return undefined;",
  },
  "takes a lease that is held": {
    file: "host/process/leader-election/lock.ts",
    from: "if (this.heldByAnother || isLost) {",
    to: "if (isLost) {",
  },
  "leaves a node out of pools after it has come back": {
    file: `${balancing}/reconcile/observe.ts`,
    from: 'added: ({ metadata }) => void this.#deletedNodes.delete(metadata?.name ?? ""),',
    to: "added: () => undefined,",
  },
  "keeps a deleted node in pools": {
    file: `${balancing}/reconcile/observe.ts`,
    from: "deleted: (node) => this.#noteDeleted(node),",
    to: "deleted: () => undefined,",
  },
  "believes instances that were read while they left a pool": {
    file: `${balancing}/pools/job-runner.ts`,
    from: 'this.#instancesAhead.drop(scaleSetIdOf(id) ?? "");',
    to: "",
  },
  "writes without a precondition": {
    file: "plugins/azure-cloud/arm/writes/resources.ts",
    from: 'etag === undefined ? { "If-None-Match": "*" } : { "If-Match": etag };',
    to: "etag === undefined ? {} : {};",
  },
  "believes its cache after a failed write": {
    file: "plugins/azure-cloud/arm/writes/resources.ts",
    from: "      this.invalidate(id);\n      throw error;",
    to: "      throw error;",
  },
  "deletes a load balancer that a Service awaits": {
    file: `${balancing}/plan/writes.ts`,
    from: "(isWithheld(one) || !isAwaited(draft, one))",
    to: "(isWithheld(one) || true)",
  },
  "takes a failed operation for the desired state": {
    file: `${balancing}/plan/writes.ts`,
    from: "(current === one.observed && !one.repeats)",
    to: "current === one.observed",
  },
  "removes the finalizer before the load balancer": {
    file: "plugins/service-lb/sync.ts",
    from: "  if ((await existing(parts, service, signal)) !== undefined) {\n    throwIfStopping(signal);",
    to: "  await writes.removeFinalizer(service);\n  if ((await existing(parts, service, signal)) !== undefined) {\n    throwIfStopping(signal);",
  },
  "removes the finalizer and nothing else": {
    file: "plugins/service-lb/sync.ts",
    from: "  if ((await existing(parts, service, signal)) !== undefined) {\n    throwIfStopping(signal);",
    to: "  if (signal.aborted) {\n    throwIfStopping(signal);",
  },
  "believes that a VM is gone because a list lacks it": {
    file: "plugins/azure-cloud/instances/fresh-lookups.ts",
    from: "const row = this.#noted(key, await read(key));",
    to: 'const row = this.#noted(key, (await this.#list.get("fresh")).get(key));',
  },
  "deletes the routes of others": {
    file: "plugins/route/plan.ts",
    from: "return stale && isResponsibleFor(clusterCIDRs, route.destinationCIDR);",
    to: "return stale;",
  },
  "does not open the security group": {
    file: `${balancing}/plan/security-group/edits.ts`,
    from: "for (const tag of tags) set.allow({ protocol, family, sources: [tag], ports: opened, destinations });",
    to: "",
  },
  "ignores deletions in watches": {
    file: "host/kube/informers/reflector.ts",
    from: 'case "DELETED":',
    to: 'case "GONE":',
  },
};
