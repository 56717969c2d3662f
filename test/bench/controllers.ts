import { forEachConcurrently, kinds, type Service } from "cloud-controller-host/sdk";

import { serveCloud } from "../kit/cloud-server.ts";
import { joinNode, nodeName } from "../kit/kubelet.ts";
import { realNode } from "../kit/real-node.ts";
import { balancedService } from "../kit/services.ts";
import { type ControllersWorld, eachAlone } from "./controllers-alone.ts";
import { costOfEvents } from "./controllers-events.ts";
import { type Bench, type Figure } from "./report.ts";
import { loadAverage, numberOf, realCluster } from "./world.ts";

/**
 * What the controllers cost, on a real API server and a cloud in memory that answers at once: the figures are those of
 * the host, its requests and the machine that all of them share, not those of a cloud.
 *
 * First each controller runs alone, in a host of its own, on a cluster in which everything is still to be done: how
 * many objects a second it sees to (from the first that is done until the last), how long their keys waited in its
 * queue (interpolated from the host's own histogram, whose buckets are decades; all keys come at once, so that this is
 * the wait for a turn, and no longer than the host had run), requests to the API server for one object (events apart;
 * the few of the start are in it), events for one object, processor time and memory. The route and the lifecycle controller have no queue: they look at all
 * nodes in one pass. The lifecycle controller is shown nodes whose machines have all been shut down.
 *
 * Then all five run in one host on the settled cluster, and one thing happens at a time: which calls to the cloud and
 * which writes it costs. All load balancers of a cluster have the same nodes behind them, by upstream's rules and
 * whatever the traffic policy is: a node that comes or goes concerns each Service of type LoadBalancer, once, and no
 * other Service; a node that takes no traffic concerns none. What is asked for in any case, whatever happens, is left
 * out: the list of routes in each period, the lease, the watches.
 */
export const controllersBench: Bench = {
  about: "what each controller does in a second, and what one change in a settled cluster costs",
  options: { services: "1000", nodes: "1000", workers: "16" },
  async run(options) {
    await using stack = new AsyncDisposableStack();
    const world: ControllersWorld = {
      cluster: await realCluster(stack, { audited: true }),
      cloud: stack.use(await serveCloud()),
      services: numberOf(options, "services"),
      nodes: numberOf(options, "nodes"),
      workers: numberOf(options, "workers"),
    };
    await populate(world);
    const given: readonly Figure[] = [
      { name: "loadAverage", value: loadAverage(), unit: "over the minute before" },
      { name: "services", value: world.services, unit: "of type LoadBalancer, and a fifth as many of no concern" },
      { name: "nodes", value: world.nodes },
      { name: "workers", value: world.workers },
    ];
    const alone = await eachAlone(world, ["cloudNode", "nodeIpam", "route", "serviceLb"]);
    const events = await costOfEvents(world);
    return [...given, ...alone, ...(await eachAlone(world, ["lifecycle"])), ...events];
  },
};

/** Nodes as their kubelets register them, Services, and Services that are none of ours. */
async function populate({ cluster: { admin }, cloud, services, nodes }: ControllersWorld): Promise<void> {
  const numbers = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index + 1);
  const make = (service: Service): Promise<Service> => admin.create(kinds.Service, service);
  await forEachConcurrently({ workers: 32 }, numbers(nodes), async (index) => {
    const name = nodeName(index);
    await joinNode(admin, cloud.memory, name, realNode(name));
  });
  await forEachConcurrently({ workers: 32 }, numbers(services), async (index) => {
    await make(balancedService(`web-${index}`, { allocateLoadBalancerNodePorts: false }));
  });
  await forEachConcurrently({ workers: 32 }, numbers(Math.ceil(services / 10)), async (index) => {
    const foreign = { allocateLoadBalancerNodePorts: false, loadBalancerClass: "example.com/another" };
    await make(balancedService(`plain-${index}`, { type: "ClusterIP" }));
    await make(balancedService(`foreign-${index}`, foreign));
  });
}
