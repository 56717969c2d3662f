import type { Defects } from "./defect.ts";

const controller = "plugins/service-lb";

/** Defects that only a second deployment shows. */
export const secondDefects: Defects = {
  "deletes what another deployment has for a Service that has lost its mark": {
    file: `${controller}/left-behind.ts`,
    from: "found === undefined || (!showsNothing(service) && hasStatus(service, found));",
    to: "found === undefined;",
    needs: ["serveSecond", "killHost"],
    kept: "a Service loses the mark of a paused deployment, and another one starts",
  },
  "leaves a Service without its mark": {
    file: `${controller}/predicates.ts`,
    from: 'if (markOf(after) === undefined && markOf(before) === (shards?.own ?? "")) return "mark";',
    to: "",
    needs: ["serveSecond"],
    kept: "a Service loses its mark",
  },
  "takes a Service from a deployment that leads": {
    file: `${controller}/claim.ts`,
    from: "if (mark !== undefined && (await shards.isAlive(mark))) {",
    to: "if (mark !== undefined && !(await shards.isAlive(mark))) {",
    needs: ["serveSecond"],
    kept: "a Service goes to the other deployment during a slow write",
  },
  "keeps one record of a drain for all deployments": {
    file: "plugins/azure-cloud/load-balancer/model/drain.ts",
    from: 'if (shardSuffix !== "" || shards?.isAlive === undefined) return',
    to: 'if (shardSuffix !== "-") return',
    needs: ["serveSecond", "excludeNode"],
    kept: "two deployments drain a node from one load balancer",
  },
  "writes an instance while another writer's operation is in progress": {
    file: "plugins/azure-cloud/load-balancer/pools/instance-pools.ts",
    from: "await readSettled(id, fresh, options)",
    to: "await readSettled(id, false, options)",
    kept: "two deployments add the same instances to a pool",
  },
  "forgets what a former process has opened for a Service": {
    file: "plugins/azure-cloud/load-balancer/plan/security-group/holders.ts",
    from: "  ...recordedAddresses(service),",
    to: "  ...recordedAddresses({ ...service, status: {} }),",
    needs: ["serveSecond", "changeService", "killHost"],
    kept: "a Service names an additional address, and takes that back after its process was killed",
  },
  "does not know the address of a Service from its public IP": {
    file: "plugins/azure-cloud/load-balancer/plan/security-group/holders.ts",
    from: 'const own = action === "delete" || isShared(draft) ? ownedAddresses(draft, subject) : [];',
    to: "const own: readonly string[] = [];",
    needs: ["serveSecond", "changeService", "flipService"],
    kept: "a Service becomes internal and changes its type, and its process is killed",
  },
};
