import { describe, expect, test } from "bun:test";

import { keyOf, RetryAfterError, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { parseJson } from "../../../../plugins/azure-cloud/json.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { azureState, expectConverged } from "./azure-state.ts";
import { fast, openCluster, serviceOf } from "./cluster.ts";

const many = (count: number): readonly Service[] =>
  Array.from({ length: count }, (_, index) => serviceOf(`web-${index}`));

const excludeLabel = "node.kubernetes.io/exclude-from-external-load-balancers";

describe("the load balancer of a Service", () => {
  test("gets a public IP, a frontend, a rule, a probe, its nodes and a security rule, and leaves nothing", async () => {
    await using cluster = await openCluster(3);
    const generation = await cluster.start();
    const web = serviceOf("web");
    await cluster.ensure(generation, web);
    expectConverged(cluster);
    expect(cluster.services.get(keyOf(web))?.status?.loadBalancer?.ingress).toHaveLength(1);
    await cluster.remove(generation, web);
    expectConverged(cluster);
    expect(azureState(cluster.world.simulator).balancers).toEqual([]);
  });

  test("is verified without a write, by the same process and by the next one", async () => {
    await using cluster = await openCluster(3);
    const generation = await cluster.start();
    for (const service of many(3)) await cluster.ensure(generation, service);
    cluster.world.simulator.clearLog();
    for (const service of many(3)) await cluster.ensure(generation, service);
    expect(cluster.writes()).toEqual([]);
    const next = await cluster.start();
    await Promise.all(many(3).map((service) => cluster.ensure(next, service)));
    expect(cluster.writes()).toEqual([]);
    expect(cluster.world.simulator.log.length).toBeLessThanOrEqual(9);
    await Bun.sleep(20);
    expect(cluster.world.logged.map(({ message }) => message)).toContain("Verified 3 Services, 0 writes");
  });

  test("is created together with all others wanted at the same time, and deleted likewise", async () => {
    await using cluster = await openCluster(3, { operationStyle: "none" });
    // The wait for further ones takes five seconds, however busy the machine is.
    const generation = await cluster.start({}, fast(0.05));
    await Promise.all(many(200).map((service) => cluster.ensure(generation, service)));
    expectConverged(cluster);
    const puts = cluster.writes().filter((write) => !write.includes("publicIPAddresses"));
    expect(puts.length).toBeLessThanOrEqual(8);
    cluster.world.simulator.clearLog();
    await Promise.all(many(200).map((service) => cluster.remove(generation, service)));
    expectConverged(cluster);
    expect(cluster.writes().filter((write) => !write.includes("publicIPAddresses")).length).toBeLessThanOrEqual(12);
  }, 120_000);

  test("gives a joining and a leaving node to every Service in one pass over the pools", async () => {
    await using cluster = await openCluster(4);
    const [last] = cluster.nodes.splice(3);
    const generation = await cluster.start();
    await Promise.all(many(20).map((service) => cluster.ensure(generation, service)));
    cluster.world.simulator.clearLog();
    if (last !== undefined) cluster.nodes.push(last);
    const services = [...cluster.services.values()];
    const results = await generation.balancers.updateLoadBalancers("kubernetes", services, cluster.nodes);
    expect(results.every(({ status }) => status === "fulfilled")).toBe(true);
    expect(cluster.writes()).toEqual(["PUT virtualMachines/3"]);
  });

  test.each([
    ["is excluded from load balancers", { [excludeLabel]: "" }],
    ["is not excluded", {}],
  ])(
    "keeps a node whose provider ID a later node has as well, without a write, where that one %s",
    async (_what, own) => {
      await using cluster = await openCluster(2);
      const [first, second] = cluster.nodes;
      const metadata = { name: "zz-impostor", creationTimestamp: "2026-01-02T00:00:00Z", labels: own };
      const impostor = { ...second, metadata };
      const generation = await cluster.start();
      const web = serviceOf("web");
      await cluster.ensure(generation, web);
      expect(cluster.writes()).toContain("PUT virtualMachines/1");
      for (const nodes of [
        [first, second, impostor],
        [impostor, second, first],
      ]) {
        cluster.nodes.splice(0, cluster.nodes.length, ...nodes.filter((node) => node !== undefined));
        cluster.world.simulator.clearLog();
        await cluster.ensure(generation, web);
        const eligible = cluster.nodes.filter((node) => node !== impostor || !(excludeLabel in own));
        await generation.balancers.updateLoadBalancers("kubernetes", [web], eligible);
        expect(cluster.writes()).toEqual([]);
      }
    },
  );

  test("has a node again that left and returned during one tick", async () => {
    await using cluster = await openCluster(3);
    const generation = await cluster.start();
    const { simulator } = cluster.world;
    const last = cluster.nodes.pop();
    if (last === undefined) throw new Error("the cluster has no node");
    await cluster.ensure(generation, serviceOf("web"));
    const instance = { method: "PUT", path: "/virtualMachines/2" };
    const excluded = {
      ...last,
      metadata: { ...last.metadata, labels: { "node.kubernetes.io/exclude-from-external-load-balancers": "" } },
    };
    const joining = simulator.hold(instance, "response");
    cluster.nodes.push(last);
    const ensured = cluster.ensure(generation, serviceOf("web"));
    await eventually("the instance is added", () => joining.waiting() === 1);
    cluster.nodes[2] = excluded;
    const leaving = simulator.hold(instance);
    joining.release();
    await eventually("the instance is removed", () => leaving.waiting() === 1);
    cluster.nodes[2] = last;
    leaving.release();
    await ensured;
    expect(cluster.writes().filter((write) => write.endsWith("virtualMachines/2"))).toHaveLength(3);
    expectConverged(cluster);
  });

  test("changes its public IP after the frontend has changed that one's etag, by one read and without a conflict", async () => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start();
    // The second time reads the load balancer with its members.
    for (let times = 0; times < 2; times++) await cluster.ensure(generation, serviceOf("web"));
    cluster.world.simulator.clearLog();
    await cluster.ensure(generation, serviceOf("web", { annotations: { "azure-pip-tags": "team=a" } }));
    const { log } = cluster.world.simulator;
    expect(cluster.writes()).toHaveLength(1);
    expect(log.map(({ method, status }) => `${method} ${status}`)).toEqual(["GET 200", "PUT 200"]);
    expect(JSON.stringify(cluster.world.simulator.resources())).toContain('"team":"a"');
  });

  test("finds the subnet of its private link service prepared by another Service a moment ago", async () => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start();
    const annotations = { "azure-load-balancer-internal": "true", "azure-pls-create": "true" };
    for (const name of ["one", "two"]) await cluster.ensure(generation, serviceOf(name, { annotations }));
    expect(cluster.writes().filter((write) => write.includes("subnets/"))).toEqual(["PUT subnets/subnet0"]);
    const { log } = cluster.world.simulator;
    // The read before it is created.
    expect(log.filter(({ path, status }) => path.includes("/loadBalancers/") && status === 404)).toHaveLength(1);
    expectConverged(cluster);
  });

  test("is counted by upstream's metrics of operations, successes and failures", async () => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start();
    const measured = (name: string): readonly string[] =>
      cluster.world.measured.filter((one) => one.startsWith(`cloudprovider_azure_op_${name}{`));
    const labels = (request: string, source: string): string =>
      `{request=services_${request},resource_group=rg0,subscription_id=sub0,source=${source}}`;
    await cluster.ensure(generation, serviceOf("web"));
    await generation.balancers.updateLoadBalancer("kubernetes", serviceOf("web"), cluster.nodes);
    await cluster.remove(generation, serviceOf("web"));
    expect(measured("duration_seconds")).toEqual(
      ["ensure_loadbalancer", "update_loadbalancer", "ensure_loadbalancer_deleted"].map(
        (request) => `cloudprovider_azure_op_duration_seconds${labels(request, "default/web")}`,
      ),
    );
    expect(measured("failure_count")).toEqual([]);
    const bad = serviceOf("bad", { annotations: { "azure-load-balancer-tcp-idle-timeout": "1000000" } });
    await errorOf(cluster.ensure(generation, bad));
    expect(measured("failure_count")).toEqual([
      `cloudprovider_azure_op_failure_count${labels("ensure_loadbalancer", "default/bad")}`,
    ]);
  });

  test("is deleted although its nodes change at the same time", async () => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start();
    await cluster.ensure(generation, serviceOf("web"));
    await Promise.all([
      generation.balancers.ensureLoadBalancerDeleted("kubernetes", serviceOf("web")),
      generation.balancers.updateLoadBalancer("kubernetes", serviceOf("web"), cluster.nodes),
    ]);
    expect(azureState(cluster.world.simulator).balancers).toEqual([]);
  });

  test("is deleted at the second attempt although a scale set has joined its pool unnoticed", async () => {
    await using cluster = await openCluster(0);
    const { simulator } = cluster.world;
    const { id } = simulator.addScaleSet({ name: "late" });
    const generation = await cluster.start();
    await cluster.ensure(generation, serviceOf("web"));
    // The deletion of another load balancer reads the scale sets.
    const internal = serviceOf("inside", { annotations: { "azure-load-balancer-internal": "true" } });
    await cluster.ensure(generation, internal);
    await cluster.remove(generation, internal);
    const pool = simulator.get("/providers/Microsoft.Network/loadBalancers/kubernetes")?.id;
    const [apart, joined] = ["", `{"id":"${pool}/backendAddressPools/kubernetes"}`].map(
      (pools) => `"loadBalancerBackendAddressPools":[${pools}]`,
    );
    const properties = JSON.stringify(simulator.get(id)?.properties).replace(apart ?? "", joined ?? "");
    simulator.put(id, { properties: Object(parseJson(properties)) });
    expect(String(await errorOf(cluster.remove(generation, serviceOf("web"))))).toContain(
      "LoadBalancerInUseByVirtualMachineScaleSet",
    );
    await cluster.remove(generation, serviceOf("web"));
    expect(azureState(simulator).balancers).toEqual([]);
  });

  test("is not updated on node changes of a deleted or terminating Service", async () => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start();
    await generation.balancers.updateLoadBalancer("kubernetes", serviceOf("never-was"), cluster.nodes);
    const web = serviceOf("web");
    cluster.services.set(keyOf(web), {
      ...web,
      metadata: { ...web.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
    });
    await generation.balancers.updateLoadBalancer("kubernetes", web, cluster.nodes);
    expect(cluster.writes()).toEqual([]);
  });
});

describe("a Service that cannot have its load balancer", () => {
  test("a Service that cannot have its load balancer for its annotations costs no request that writes, and delays no other", async () => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start();
    // It leads before the Service is created.
    void generation.balancers.run(new AbortController().signal);
    const bad = serviceOf("bad", { annotations: { "azure-load-balancer-tcp-idle-timeout": "1000000" } });
    const [failed] = await Promise.allSettled([
      cluster.ensure(generation, bad),
      cluster.ensure(generation, serviceOf("good")),
    ]);
    expect(failed.status).toBe("rejected");
    expect(String(failed.status === "rejected" ? failed.reason : "")).toContain("azure-load-balancer-tcp-idle-timeout");
    expect(JSON.stringify(cluster.world.simulator.resources())).not.toContain("default/bad");
    await cluster.remove(generation, bad);
    expectConverged(cluster);
  });

  test("a Service that cannot have its load balancer because ARM rejects its public IP fails alone, with ARM's message, and is not retried at once", async () => {
    await using cluster = await openCluster(2);
    const generation = await cluster.start();
    const failure = { status: 400, code: "PublicIPCountLimitReached", message: "Too many.", times: 9 };
    const [base] = (serviceOf("bad").metadata?.uid ?? "").split("-");
    cluster.world.simulator.failNext({ method: "PUT", path: `kubernetes-a${base}` }, failure);
    const [error] = await Promise.all([
      errorOf(cluster.ensure(generation, serviceOf("bad"))),
      ...many(5).map((service) => cluster.ensure(generation, service)),
    ]);
    if (!(error instanceof RetryAfterError)) throw error;
    expect(error.delayMs).toBe(60_000);
    expect(error.message).toMatch(/400 PublicIPCountLimitReached: Too many\. \(correlation ID [-0-9a-f]{36}\)$/u);
    cluster.services.delete("default/bad");
    expectConverged(cluster);
    const again = await errorOf(cluster.ensure(generation, serviceOf("bad")));
    expect(again).toMatchObject({ delayMs: 120_000 });
  });
});
