import type { Defects } from "./defect.ts";

const balancing = "plugins/azure-cloud/load-balancer";
const reconcile = `${balancing}/reconcile`;

/** Of Azure's planner, of the loop that carries plans out, of pools, and of the removal guard. */
export const loadBalancerDefects: Defects = {
  "leaves a node out of pools after it has come back": {
    file: `${reconcile}/observe.ts`,
    from: 'added: ({ metadata }) => void this.#deletedNodes.delete(metadata?.name ?? ""),',
    to: "added: () => undefined,",
  },
  "keeps a deleted node in pools": {
    file: `${reconcile}/observe.ts`,
    from: "deleted: (node) => this.#noteDeleted(node),",
    to: "deleted: () => undefined,",
  },
  "does not know the instances of deleted nodes": {
    file: `${reconcile}/observe.ts`,
    from: "[...nodes, ...this.#deletedNodes.values()]",
    to: "nodes",
  },
  "takes a resource group that it cannot read for an empty one": {
    file: `${reconcile}/observe.ts`,
    from: "if (group === resourceGroup || group === privateLinkResourceGroup) throw error;",
    to: "",
  },
  "takes a Service for another one of its name during a late write": {
    file: `${reconcile}/observe.ts`,
    from: "if (current === undefined || current.metadata?.uid !== known.metadata?.uid) return known;",
    to: "if (current === undefined) return known;",
  },
  "lets an ensure that has crossed a deletion supersede it": {
    file: `${reconcile}/wanted.ts`,
    from: 'if (this.#intent.action === "delete" && intent.action === "ensure") return;',
    to: "",
  },
  "continues after a late write with what a Service wanted before": {
    file: `${reconcile}/loop.ts`,
    from: "const newest = this.#options.observer.newest(service);",
    to: "const newest = service as typeof service | undefined;",
  },
  "settles a Service with a plan of what it wanted before": {
    file: `${reconcile}/loop.ts`,
    from: "|| !isNewest(entry)) continue;",
    to: ") continue;",
  },
  "does not continue after a conflict": {
    file: `${reconcile}/loop.ts`,
    from: "this.#ticker.after(this.#inFlight.pauseMs());",
    to: "",
  },
  "plans without those that it has failed with": {
    file: `${reconcile}/outcomes.ts`,
    from: "      this.#recordFailure(write, entries, error);\n      this.#fail(entries, error);",
    to: "      for (const entry of entries) entry.done(write);",
  },
  "writes a resource that is being written": {
    file: `${reconcile}/in-flight.ts`,
    from: "return ![...earlier, ...this.#flights].some(({ holds }) => holds.some(isSubject));",
    to: "return isSubject !== undefined;",
  },
  "reports members as written that were not": {
    file: `${reconcile}/outcomes.ts`,
    from: "entry.memberFailed(error);",
    to: "",
  },
  "forgets members that are written late": {
    file: `${reconcile}/reconciler.ts`,
    from: "if (this.#followed.has(key)) return;",
    to: "if (this.#followed !== undefined) return;",
  },
  "takes members from before the end of a late write for those of now": {
    file: `${reconcile}/reconciler.ts`,
    from: "observer.outdate(loadBalancerOf(poolId));",
    to: "",
  },
  "believes that a deleted Service has nothing because no list shows it": {
    file: `${reconcile}/contradictions.ts`,
    from: "if (bases.has(base) || owners.has(key) || this.#isAbsent(service, readMs)) return [];",
    to: "if (base !== undefined) return [];",
  },
  "takes every Service for a new one": {
    file: `${reconcile}/preconditions.ts`,
    from: "return this.#others?.has(uidOf(service)) === false;",
    to: "return true;",
  },
  "leaves a public IP whose frontend it has not seen": {
    file: `${reconcile}/apply.ts`,
    from: "if (uses(current) && !uses(seen)) throw new OutdatedError(",
    to: "if (seen === null) throw new OutdatedError(",
  },
  "believes its public IPs after a failed write of their load balancer": {
    file: `${reconcile}/apply.ts`,
    from: "      publicIPs.forget();\n      const unfinished",
    to: "      const unfinished",
  },
  "deletes a load balancer that others have changed": {
    file: `${reconcile}/apply.ts`,
    from: "await network.loadBalancers.delete(id, planned, (current) => hasSameChildren(current, planned));",
    to: "await network.loadBalancers.delete(id, planned, () => true);",
  },
  "takes away a load balancer that another Service is about to use": {
    file: `${reconcile}/rounds.ts`,
    from: "return ready.filter((write) => !isAbandoning(write) || abandoned.has(write.id));",
    to: "return ready.filter((write) => abandoned.has(write.id) || true);",
  },
  "believes instances that were read while they left a pool": {
    file: `${balancing}/pools/job-runner.ts`,
    from: 'this.#instancesAhead.drop(scaleSetIdOf(id) ?? "");',
    to: "",
  },
  "writes an instance twice at once": {
    file: `${balancing}/pools/job-runner.ts`,
    from: 'return this.#inFlight.get(id.toLowerCase()) ?? this.#inFlight.get(model ?? "");',
    to: "return model === null ? this.#inFlight.get(id) : undefined;",
  },
  "does not read an instance again after a conflict": {
    file: "plugins/azure-cloud/arm/writes/write-errors.ts",
    from: "return await attempt(conflicts > 0);",
    to: "return await attempt(false);",
  },
  "lets instances of deleted nodes stay in pools": {
    file: `${balancing}/plan/balancer/members.ts`,
    from: "[...excluded, ...observed.deletedNodes]",
    to: "[...excluded]",
  },
  "does not join nodes to a pool that has members": {
    file: `${balancing}/plan/balancer/members.ts`,
    from: "const present = new Set(\n    members.flatMap(",
    to: "const present = members.length > 0 ? new Set(nodes.map((one) => nodeName(one).toLowerCase())) : new Set(\n    members.flatMap(",
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
  "keeps rules of ports that a Service has no more": {
    file: `${balancing}/plan/balancer/remove.ts`,
    from: "!expected.has(name.toLowerCase()) ||",
    to: "",
  },
  "removes frontends that others use": {
    file: `${balancing}/plan/balancer/remove.ts`,
    from: "const users = one.current === undefined ? [] : usersOf(one.current, frontend.id, isOwnRule(subject));",
    to: "const users: readonly string[] = [];",
  },
  "leaves private link services behind": {
    file: `${balancing}/plan/balancer/remove.ts`,
    from: "deleteLinks(draft, subject, frontend);",
    to: "",
  },
  "does not apply an idle timeout": {
    file: `${balancing}/plan/balancer/rules.ts`,
    from: "idleTimeoutInMinutes: subject.settings.get(annotations.idleTimeout) ?? 4,",
    to: "idleTimeoutInMinutes: 4,",
  },
  "takes a public IP of a user for its own": {
    file: `${balancing}/plan/public-ip/ensure.ts`,
    from: "const owned = userAssigned ? start : withManagedFields(",
    to: "const owned = userAssigned && false ? start : withManagedFields(",
  },
  "leaves public IPs of deleted Services": {
    file: `${balancing}/plan/public-ip/plan.ts`,
    from: 'return servicesIn(tags).length === 0 ? "delete" : {',
    to: "return {",
  },
  "does not open the security group": {
    file: `${balancing}/plan/security-group/edits.ts`,
    from: "for (const tag of tags) set.allow({ protocol, family, sources: [tag], ports: opened, destinations });",
    to: "",
  },
  "opens the security group to all, whatever a Service allows": {
    file: `${balancing}/plan/security-group/edits.ts`,
    from: "set.allow({ protocol, family, sources: ranges[family], ports: opened, destinations });",
    to: 'set.allow({ protocol, family, sources: ["Internet"], ports: opened, destinations });',
  },
  "leaves security rules of addresses that are gone": {
    file: `${balancing}/plan/security-group/edits.ts`,
    from: "set.remove(protocol, removed, portsFor(protocol, retained), (one) => portsFor(protocol, openAt(one)));",
    to: "void [removed, openAt, retained];",
  },
  "holds removals that have a cause": {
    file: "plugins/azure-cloud/removal-guard/guard.ts",
    from: 'causes.causeOf(item, change) === "known";',
    to: "false;",
  },
  "does not confirm what only a list lacks": {
    file: "plugins/azure-cloud/removal-guard/guard.ts",
    from: "if (found.length > 0 && !(await this.#isReleased(change, found)))",
    to: "if (found.length < 0 && !(await this.#isReleased(change, found)))",
  },
};
