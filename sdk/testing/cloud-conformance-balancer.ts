import type { LoadBalancers } from "../cloud.ts";
import type { Service } from "../kinds.ts";
import type { CloudFixture, CloudTest } from "./cloud-harness.ts";
import { type ConformanceTest, must } from "./conformance.ts";

type BalancerFixture = CloudFixture & { readonly service: Service; readonly balancers: LoadBalancers };

/** Tests of the `LoadBalancers` contract. */
export function balancerConformance(inFixture: CloudTest): readonly ConformanceTest[] {
  const withBalancers = (name: string, check: (fixture: BalancerFixture) => Promise<void>): ConformanceTest =>
    inFixture(name, async (fixture) => {
      const { cloud, service } = fixture;
      if (cloud.loadBalancers === undefined) return;
      must(service !== undefined, "the cloud has load balancers: the harness must provide `service`");
      await check({ ...fixture, service, balancers: cloud.loadBalancers });
    });
  return [
    withBalancers("a new Service has no load balancer, and deleting it writes nothing", hasNone),
    withBalancers("the name of a load balancer is stable", namesSteadily),
    withBalancers("a load balancer is found after ensure, and a second ensure writes nothing", ensures),
    withBalancers("a load balancer is not found after its deletion, and a second deletion succeeds", deletes),
  ];
}

async function hasNone({ balancers, clusterName, service, writes }: BalancerFixture): Promise<void> {
  must((await balancers.getLoadBalancer(clusterName, service)) === undefined, "a new Service has a load balancer");
  await balancers.ensureLoadBalancerDeleted(clusterName, service);
  must(writes() === 0, "deleting a missing load balancer wrote to the backend");
}

async function namesSteadily({ balancers, clusterName, service }: BalancerFixture): Promise<void> {
  const name = balancers.loadBalancerName(clusterName, service);
  must(
    name !== "" && name === balancers.loadBalancerName(clusterName, service),
    "loadBalancerName is empty or changes from call to call",
  );
}

async function ensures({ balancers, clusterName, service, node, writes }: BalancerFixture): Promise<void> {
  const created = await balancers.ensureLoadBalancer(clusterName, service, [node]);
  must((created.ingress ?? []).length > 0, "the status of a load balancer has no ingress");
  const found = await balancers.getLoadBalancer(clusterName, service);
  must(
    JSON.stringify(found) === JSON.stringify(created),
    "getLoadBalancer returned another status than ensureLoadBalancer",
  );
  const before = writes();
  await balancers.ensureLoadBalancer(clusterName, service, [node]);
  await balancers.updateLoadBalancer(clusterName, service, [node]);
  must(writes() === before, "ensure or update wrote although nothing had changed");
}

async function deletes({ balancers, clusterName, service, node }: BalancerFixture): Promise<void> {
  await balancers.ensureLoadBalancer(clusterName, service, [node]);
  await balancers.ensureLoadBalancerDeleted(clusterName, service);
  must((await balancers.getLoadBalancer(clusterName, service)) === undefined, "a deleted load balancer is still found");
  await balancers.ensureLoadBalancerDeleted(clusterName, service);
}
