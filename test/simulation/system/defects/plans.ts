import type { Defects } from "./defect.ts";

const plan = "plugins/azure-cloud/load-balancer/plan";

/** Of what Azure's planner wants of rules, public IPs, the security group and pools. */
export const planDefects: Defects = {
  "leaves the former load balancer of a Service in state Failed": {
    file: "plugins/azure-cloud/load-balancer/plan/repeat-failed.ts",
    from: ".some((address) => !wanted.includes(address))",
    to: '.some(() => action === "delete")',
    needs: ["failOperations", "changeService"],
    kept: "a Service leaves the load balancer of another deployment, and the write fails",
  },
  "does not apply session affinity": {
    file: `${plan}/balancer/rules.ts`,
    from: '=== "ClientIP" ? "SourceIP" : "Default"',
    to: '=== "ClientIP" ? "Default" : "Default"',
    needs: ["changeService"],
    kept: "Services change",
  },
  "keeps the session affinity that a rule has": {
    file: `${plan}/balancer/rules.ts`,
    from: "  left.loadDistribution === right.loadDistribution &&\n",
    to: "",
    needs: ["changeService"],
    kept: "Services change",
  },
  "keeps the rules of a Service that has gone to another load balancer": {
    file: `${plan}/balancer/balancers.ts`,
    from: "left.push([one, removeRules(one, placement)]);",
    to: "left.push([one, []]);",
    needs: ["changeService"],
    kept: "Services change",
  },
  "leaves the public IP of a Service that has become internal": {
    file: `${plan}/public-ip/plan.ts`,
    from: "if (isReleased(current, subject, name, draft.config)) remove(one, subject.key);",
    to: "",
    needs: ["changeService"],
    kept: "a Service becomes internal",
  },
  "ignores ranges that only an annotation allows": {
    file: `${plan}/security-group/access.ts`,
    from: "const valid = [...ofSpec.valid, ...annotated.flatMap((one) => one.valid)];",
    to: "const valid = [...ofSpec.valid];",
    needs: ["createService"],
    kept: "Services change",
  },
  "leaves addresses of nodes that are gone in pools": {
    file: `${plan}/balancer/address-pools.ts`,
    from: "if (isMember || isKept) stay.push(",
    to: "if (isMember || address !== undefined) stay.push(",
    needs: ["loseNode"],
    kept: "a node is retired, of node IPs",
  },
  "adds no addresses to a pool that has some": {
    file: `${plan}/balancer/address-pools.ts`,
    from: "if (!known.has(ipAddress) && !leaving?.has(name)) missing.push(",
    to: "if (known.size === 0) missing.push(",
    needs: ["joinNodes"],
    kept: "nodes come, of node IPs",
  },
  "deletes a load balancer whose pools have members": {
    file: `${plan}/writes.ts`,
    from: "return poolIds.length > 0 && isNeeded ? [",
    to: "return poolIds.length < 0 && isNeeded ? [",
    needs: ["deleteService"],
    kept: "the only internal Service goes",
  },
  "does not wait for the writes that a write needs": {
    file: "plugins/azure-cloud/load-balancer/reconcile/rounds.ts",
    from: 'orderOf(earlier) < orderOf(stage === "security-group" ? "load-balancers" : stage);',
    to: "orderOf(earlier) < 0 && stage !== undefined;",
    needs: ["deleteService"],
    kept: "Services go",
  },
  "does not take instances out of pools": {
    file: "plugins/azure-cloud/load-balancer/pools/pool-edits.ts",
    from: "if (edited.some((one) => isIn(one, poolId))) edited = edited.map((one) => without(one, poolId));",
    to: "",
    needs: ["returnNode"],
    kept: "a node is retired",
  },
  "takes an instance out of all of its pools": {
    file: "plugins/azure-cloud/load-balancer/pools/pool-edits.ts",
    from: 'poolsOf(configuration).filter(({ id }) => !sameName(id ?? "", poolId)),',
    to: "[],",
    needs: ["deleteService", "changeService"],
    kept: "the only internal Service goes",
  },
  "joins a pool and leaves the others": {
    file: "plugins/azure-cloud/load-balancer/pools/pool-edits.ts",
    from: "const pools = [...poolsOf(target), { id: poolId }];",
    to: "const pools = [{ id: poolId }];",
    needs: ["createService", "changeService"],
    kept: "the only internal Service goes",
  },
};
