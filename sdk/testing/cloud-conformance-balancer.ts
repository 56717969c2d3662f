import type { LoadBalancers } from "../cloud.ts";
import type { Service } from "../kinds.ts";
import type { CloudWorld, InCloudWorld } from "./cloud-conformance.ts";
import { type ConformanceTest, must } from "./conformance.ts";

type BalancerWorld = CloudWorld & { readonly service: Service; readonly balancers: LoadBalancers };

/** The promises of a cloud that has load balancers. */
export function balancerConformance(inWorld: InCloudWorld): readonly ConformanceTest[] {
  const withBalancers = (name: string, check: (world: BalancerWorld) => Promise<void>): ConformanceTest =>
    inWorld(name, async (world) => {
      const { cloud, service } = world;
      if (cloud.loadBalancers === undefined) return;
      must(service !== undefined, "the harness must bring a Service for a cloud that has load balancers");
      await check({ ...world, service, balancers: cloud.loadBalancers });
    });
  return [
    withBalancers("has no load balancer for a Service that never had one", hasNone),
    withBalancers("names a Service's load balancer the same way each time", namesSteadily),
    withBalancers("makes a load balancer, finds it, and writes nothing when it is asked for again", ensures),
    withBalancers("takes a load balancer away, and takes it well when there is none left", deletes),
  ];
}

async function hasNone({ balancers, clusterName, service, writes }: BalancerWorld): Promise<void> {
  must((await balancers.getLoadBalancer(clusterName, service)) === undefined, "it has one although none was made");
  await balancers.ensureLoadBalancerDeleted(clusterName, service);
  must(writes() === 0, "it wrote in order to delete what is not there");
}

async function namesSteadily({ balancers, clusterName, service }: BalancerWorld): Promise<void> {
  const name = balancers.loadBalancerName(clusterName, service);
  must(name !== "" && name === balancers.loadBalancerName(clusterName, service), "the name changes from call to call");
}

async function ensures({ balancers, clusterName, service, node, writes }: BalancerWorld): Promise<void> {
  const made = await balancers.ensureLoadBalancer(clusterName, service, [node]);
  must((made.ingress ?? []).length > 0, "a load balancer was made, and its status shows no ingress");
  const found = await balancers.getLoadBalancer(clusterName, service);
  must(JSON.stringify(found) === JSON.stringify(made), "what is found is not what was made");
  const before = writes();
  await balancers.ensureLoadBalancer(clusterName, service, [node]);
  await balancers.updateLoadBalancer(clusterName, service, [node]);
  must(writes() === before, "it wrote although everything was as wanted");
}

async function deletes({ balancers, clusterName, service, node }: BalancerWorld): Promise<void> {
  await balancers.ensureLoadBalancer(clusterName, service, [node]);
  await balancers.ensureLoadBalancerDeleted(clusterName, service);
  must((await balancers.getLoadBalancer(clusterName, service)) === undefined, "a deleted load balancer is still found");
  await balancers.ensureLoadBalancerDeleted(clusterName, service);
}
