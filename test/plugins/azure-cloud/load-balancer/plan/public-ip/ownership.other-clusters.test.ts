import { describe, expect, test } from "bun:test";

import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { errorOf } from "../../../../../kit/rejection.ts";
import { type Cluster, openCluster, serviceOf } from "../../cluster.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../../fixtures.ts";
import { nodesNamed, publicIP, world } from "../../world.ts";

const nodes = nodesNamed("node-0");
const config = plannerConfigOf({ loadBalancerResourceGroup: "lbs" });
const inGroup = (group: string) => ({ "azure-load-balancer-resource-group": group });
const internal = { "azure-load-balancer-internal": "true" };
const idIn = (group: string, name: string): string =>
  `/subscriptions/sub0/resourceGroups/${group}/providers/Microsoft.Network/publicIPAddresses/${name}`;

/** A public IP that a Service of the same namespace and name has, in whichever cluster `kubernetes`. */
const tagged = (group: string, name: string, more = {}) =>
  publicIP(name, "20.1.1.1", {
    id: idIn(group, name),
    tags: { "k8s-azure-service": "default/web", "k8s-azure-cluster-name": "kubernetes" },
    ...more,
  });

describe("a public IP with the tags of a Service of the same name in another cluster", () => {
  const theirs = tagged("theirs", "kubernetes-aother");
  const writes = (shape: ServiceShape, action: "ensure" | "delete", publicIPs = [theirs], more = {}) =>
    plan([intentOf({ nodes, action, ...shape })], world({ nodes, publicIPs, ...more }), config)
      .stages.flatMap((stage) => stage.writes)
      .filter(({ id }) => publicIPs.some((one) => one.id === id))
      .map(({ kind }) => kind);

  test.each<[string, ServiceShape, "ensure" | "delete"]>([
    ["of an internal Service that names its group", { annotations: { ...internal, ...inGroup("theirs") } }, "ensure"],
    ["of an external Service that names its group", { annotations: inGroup("theirs") }, "ensure"],
    ["of a Service that names its group and is deleted", { annotations: inGroup("theirs") }, "delete"],
    ["with other IP tags", { annotations: { ...inGroup("theirs"), "azure-pip-ip-tags": "A=b" } }, "ensure"],
  ])("is left alone because %s", (_title, shape, action) => {
    expect(writes(shape, action)).toEqual([]);
  });

  test("a public IP with the tags of a Service of the same name in another cluster and other IP tags is used by a Service that names it, and not waited for to be created again", () => {
    const annotations = { ...inGroup("theirs"), "azure-pip-name": "kubernetes-aother", "azure-pip-ip-tags": "A=b" };
    const observed = world({ nodes, publicIPs: [theirs] });
    const planned = plan([intentOf({ nodes, annotations })], observed, config).stages.flatMap((stage) => stage.writes);
    expect(planned.map(({ kind }) => kind)).toContain("put-load-balancer");
  });

  test("a public IP with the tags of a Service of the same name in another cluster with two owners keeps both", () => {
    const shared = tagged("theirs", "kubernetes-aother", {
      tags: { "k8s-azure-service": "default/web,default/b", "k8s-azure-cluster-name": "kubernetes" },
    });
    expect(writes({ annotations: inGroup("theirs") }, "delete", [shared])).toEqual([]);
  });

  test.each([
    ["in the cluster's resource group", "rg0", "kubernetes-aother"],
    ["in the resource group of load balancers", "lbs", "kubernetes-aother"],
    ["with the name that its Service has in this cluster", "theirs", "kubernetes-aweb"],
    ["with that name and a family", "theirs", "Kubernetes-aweb-IPv6"],
  ])("is released %s", (_title, group, name) => {
    const annotations = { ...internal, ...inGroup(group) };
    expect(writes({ annotations }, "delete", [tagged(group, name)])).toEqual(["delete-public-ip"]);
    expect(writes({ annotations }, "ensure", [tagged(group, name)])).toEqual(["delete-public-ip"]);
  });

  test("is released where a frontend of the cluster has it", () => {
    const publicIPAddress = { id: idIn("THEIRS", "kubernetes-aother") };
    const frontend = { id: "f", name: "aweb", publicIPAddress };
    const loadBalancers = [{ name: "kubernetes", id: "lb", frontendIPConfigurations: [frontend] }];
    expect(writes({ annotations: inGroup("theirs") }, "delete", [theirs], { loadBalancers })).toEqual([
      "delete-public-ip",
    ]);
  });
});

describe("a resource group that an annotation names as a way to another path", () => {
  const requested = ({ world: { simulator } }: Cluster) => simulator.log.map(({ path }) => path);

  test.each(["..", ".", "rg0/..", "rg0%2f..", "theirs."])("is refused and never requested: %s", async (group) => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    // It leads before the Service is created.
    void generation.balancers.run(new AbortController().signal);
    cluster.world.simulator.clearLog();
    for (const annotations of [
      { ...internal, ...inGroup(group) },
      { ...internal, "azure-pls-create": "true", "azure-pls-resource-group": group },
      { ...internal, "azure-load-balancer-internal-subnet": group },
      { ...internal, "azure-pls-create": "true", "azure-pls-name": group },
    ]) {
      const web = serviceOf("web", { annotations });
      expect(await errorOf(cluster.ensure(generation, web))).toMatchObject({ code: "InvalidService" });
      await generation.balancers.ensureLoadBalancerDeleted("kubernetes", web);
    }
    expect(cluster.writes()).toEqual([]);
    const network = requested(cluster).filter((path) => path.includes("Microsoft.Network"));
    expect(network.filter((path) => !path.includes("/resourceGroups/rg0/"))).toEqual([]);
  });
});
