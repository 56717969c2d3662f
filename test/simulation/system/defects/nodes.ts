import type { Defects } from "./defect.ts";

const ipam = "plugins/azure-node-ipam";
const lifecycle = "plugins/lifecycle";

/** Of nodes, their instances, their Pod CIDRs and their routes. */
export const nodeDefects: Defects = {
  "believes that a VM is gone because a list lacks it": {
    file: "plugins/azure-cloud/instances/fresh-lookups.ts",
    from: "const row = this.#noted(key, await read(key));",
    to: 'const row = this.#noted(key, (await this.#list.get("fresh")).get(key));',
    needs: ["hideInstance", "stopNode"],
  },
  "keeps a VM that a read has not found": {
    file: "plugins/azure-cloud/instances/fresh-lookups.ts",
    from: "table?.remove(key, clock.monotonic());",
    to: "",
    needs: ["loseNode"],
  },
  "takes the VM that had the name of a new node before": {
    file: "plugins/azure-cloud/cloud.ts",
    from: "    deleted: forget,\n",
    to: "",
    needs: ["replaceVM", "returnNodeAtWrite"],
  },
  "deletes a node without a fresh read": {
    file: `${lifecycle}/deletion.ts`,
    from: 'const exists = await instances.instanceExists(node, { signal, read: "fresh" });',
    to: "const exists = false;",
    needs: ["stopNode"],
  },
  "deletes a node that was created again": {
    file: `${lifecycle}/deletion.ts`,
    from: "{ ...(uid === undefined ? {} : { uid }), ...(resourceVersion === undefined ? {} : { resourceVersion }) },",
    to: "{},",
    needs: ["replaceVM", "requests"],
  },
  "never deletes a node": {
    file: `${lifecycle}/deletion.ts`,
    from: "return !exists && !signal.aborted;",
    to: "return false;",
    needs: ["loseNode"],
    kept: "a VM goes",
  },
  "does not ask again about a node that was there once": {
    file: `${lifecycle}/controller.ts`,
    from: 'for (const node of unchecked) if (verdicts.get(uidOf(node)) !== "missing") verdicts.delete(uidOf(node));',
    to: 'unchecked.splice(0, unchecked.length, ...unchecked.filter((node) => verdicts.get(uidOf(node)) !== "exists"));',
    needs: ["stopNode", "loseNode"],
  },
  "leaves the taint of an instance that runs again": {
    file: `${lifecycle}/node-check.ts`,
    from: "await removeShutdownTaint(check, node);",
    to: "",
    needs: ["stopNode"],
    kept: "a VM is stopped",
  },
  "allocates a CIDR without taking it": {
    file: `${ipam}/cidrset/allocations.ts`,
    from: "for (const { pool, room, prefix } of found) pool.take(room, prefix);",
    to: "",
    needs: ["joinNodes"],
    kept: "calm",
  },
  "does not take up CIDRs that nodes have": {
    file: `${ipam}/controller.ts`,
    from: "      if (podCidrTexts(node).length > 0) records.seen(node);\n      const",
    to: "      const",
    needs: ["killHost", "joinNodes"],
  },
  "does not record CIDRs that a watch shows": {
    file: `${ipam}/controller.ts`,
    from: "    records?.seen(node);\n",
    to: "",
    needs: ["returnNode", "joinNodes"],
  },
  "frees a CIDR whose write got no reply": {
    file: `${ipam}/allocation/sync.ts`,
    from: 'if (outcome.result !== "unknown") allocations.release(name);',
    to: "allocations.release(name);",
    needs: ["joinNodes", "requests"],
  },
  "never frees a CIDR": {
    file: `${ipam}/cidrset/allocations.ts`,
    from: "    this.#claims.delete(node);\n    this.#unmark(before);",
    to: "    this.#claims.delete(node);",
    needs: ["loseNode", "joinNodes"],
    kept: "CIDRs run out",
  },
  "gives a node that returns another CIDR than it has": {
    file: `${ipam}/allocation/sync.ts`,
    from: "const fresh = await readFresh(client, name, signal);\n  if (allocations.claimOf(name) !== claim) return;",
    to: "const fresh = nodes.get(name);\n  if (allocations.claimOf(name) !== claim) return;",
    needs: ["joinNodes", "requests"],
  },
  "deletes the routes of others": {
    file: "plugins/route/plan.ts",
    from: "return stale && isResponsibleFor(clusterCIDRs, route.destinationCIDR);",
    to: "return stale;",
    needs: ["foreignRoute"],
    kept: "routes of others",
  },
  "takes away routes of nodes that are not ready": {
    file: "plugins/route/plan.ts",
    from: "  const wanted = nodes.map((node) => {",
    to: '  const isUp = (node: Node) => node.status?.conditions?.some((one) => one.type === "Ready" && one.status === "True");\n  const wanted = nodes.filter(isUp).map((node) => {',
    needs: ["stopNode"],
    kept: "a VM is stopped",
  },
  "leaves routes of nodes that are gone": {
    file: "plugins/route/plan.ts",
    from: 'route.blackhole === true || action === undefined || action === "update";',
    to: 'route.blackhole === true || action === "update";',
    needs: ["loseNode"],
    kept: "a VM goes",
  },
  "writes the route table without a precondition": {
    file: "plugins/azure-cloud/routes/route-table.ts",
    from: "const requestOptions = { headers: ifMatch(table?.etag) };",
    to: "const requestOptions = { headers: {} };",
    needs: ["foreignRoute", "joinNodes"],
  },
  "believes its route table after a failed write": {
    file: "plugins/azure-cloud/routes/route-table.ts",
    from: "      this.#table.forget();\n      const [only] = changes;",
    to: "      const [only] = changes;",
    needs: ["joinNodes", "requests"],
  },
  "does not keep the routes of others": {
    file: "plugins/azure-cloud/routes/plan-routes.ts",
    from: "new Map((table.routes ?? []).map(",
    to: 'new Map((table.routes ?? []).filter(({ name = "" }) => name.includes("____")).map(',
    needs: ["foreignRoute", "joinNodes"],
    kept: "routes of others",
  },
};
