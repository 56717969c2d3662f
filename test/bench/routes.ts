import { CodedError, controllerNames, forEachConcurrently, kinds, type Node } from "cloud-controller-host/sdk";

import { freshNode } from "../../host/sandbox/kubelet.ts";
import { limits } from "../../plugins/azure-cloud/load-balancer/model/limits.ts";
import { createNode, simulateAzure, type SimulatedAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";
import { hostUser, rolesOf } from "../kit/host-roles.ts";
import { watchProgress } from "./progress.ts";
import type { Bench, Figure } from "./report.ts";
import { numberOf, realCluster, until } from "./world.ts";

/** A route table has room for one more, which joins later. */
const maxNodes = limits.routesPerTable - 1;

/** The time until every node has its route, and the writes of the route table: at the start, per join, on a restart. */
export const routesBench: Bench = {
  about: "create the routes of many nodes on a real API server and a simulated Azure",
  options: { nodes: String(maxNodes), "arm-latency": "50ms" },
  async run(options) {
    await using stack = new AsyncDisposableStack();
    const count = numberOf(options, "nodes");
    if (count > maxNodes)
      throw new CodedError(
        "InvalidArgument",
        `--nodes=${count}: at most ${maxNodes}, for which a route table has room`,
      );
    const cluster = await realCluster(stack, { audited: false });
    const azure = stack.use(await simulateAzure({ latencyMs: numberOf(options, "arm-latency") }));
    const instances = await azure.simulator.addInstances(count + 1);
    const nodes = instances.map(({ nodeName }, index) => routableNode(nodeName, index));
    const last = nodes.pop();
    await forEachConcurrently({ workers: 32 }, nodes, (node) => createNode(cluster.admin, node));
    const progress = stack.use(await watchProgress(cluster, azure.folder, kinds.Node, isRouted));
    await cluster.grant(hostUser, await rolesOf([controllerNames.nodeRoute]));
    const kubeconfig = await cluster.kubeconfig(hostUser);
    const start = (): HostProcess =>
      new HostProcess({
        flags: [
          `--kubeconfig=${kubeconfig}`,
          `--cloud-config=${azure.config}`,
          `--controllers=${controllerNames.nodeRoute}`,
          "--allocate-node-cidrs=true",
          "--cluster-cidr=10.0.0.0/8",
          "--route-reconciliation-period=1s",
          "--kube-api-qps=-1",
        ],
      });

    const started = performance.now();
    const host = stack.use(start());
    await progress.reached(count);
    const seconds = (performance.now() - started) / 1000;
    const puts = putsOf(azure);

    const joined = performance.now();
    if (last !== undefined) await createNode(cluster.admin, last);
    await progress.reached(count + 1);
    const joinSeconds = (performance.now() - joined) / 1000;
    const joinPuts = putsOf(azure) - puts;
    await host.stop();

    const before = { gets: getsOf(azure), puts: putsOf(azure) };
    const second = stack.use(start());
    await until("the second host reads routes", () => getsOf(azure) > before.gets, { state: () => second.stderr });
    // Three passes of one second each.
    await Bun.sleep(3_500);
    await second.stop();
    const figures: readonly Figure[] = [
      { name: "nodes", value: count },
      { name: "seconds", value: seconds, unit: "s from the start of the process until every node is routed" },
      { name: "puts", value: puts, unit: "writes of the route table", aim: "at most 10" },
      { name: "joinSeconds", value: joinSeconds, unit: "s from a node's creation to its condition, period 1 s" },
      { name: "joinPuts", value: joinPuts, unit: "writes for that node", aim: "1" },
      { name: "restartPuts", value: putsOf(azure) - before.puts, unit: "writes after a restart", aim: "0" },
      { name: "armRequests", value: azure.simulator.requests().length },
      { name: "armLatency", value: options["arm-latency"] ?? "" },
    ];
    return figures;
  },
};

function routableNode(name: string, index: number): Node {
  const node = freshNode(name, new Date());
  const podCIDR = `10.${Math.floor(index / 256)}.${index % 256}.0/24`;
  return { ...node, spec: { podCIDR, podCIDRs: [podCIDR] } };
}

const isRouted = (node: Node): boolean =>
  node.status?.conditions?.some(({ type, status }) => type === "NetworkUnavailable" && status === "False") ?? false;

const linesOf = ({ simulator }: SimulatedAzure, method: string): number =>
  simulator.requests().filter((line) => line.startsWith(`${method} `) && line.includes("/routeTables/")).length;
const putsOf = (azure: SimulatedAzure): number => linesOf(azure, "PUT");
const getsOf = (azure: SimulatedAzure): number => linesOf(azure, "GET");
