import type { Node } from "cloud-controller-host/sdk";

import type { Observed, ServiceIntent } from "../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { intentOf, plannerConfigOf } from "../plugins/azure-cloud/load-balancer/fixtures.ts";
import { portsOf } from "../plugins/azure-cloud/load-balancer/plan/largest-service.ts";
import { converge, world } from "../plugins/azure-cloud/load-balancer/world.ts";
import { type Bench, type Figure, percentile } from "./report.ts";
import { numberOf } from "./world.ts";

const internal = { "azure-load-balancer-internal": "true" };

/** A cluster in which nothing is left to write. */
interface Settled {
  readonly intents: readonly ServiceIntent[];
  readonly observed: Observed;
  readonly config: ReturnType<typeof plannerConfigOf>;
}

/** Sizes of a cluster that are close to Azure's limits. */
interface Edge {
  /** Ports of each Service. */
  readonly ports: number;
  /** Load balancers beside each other, and as many internal ones. */
  readonly balancers: number;
  /** Source ranges of each Service, which no other has: a security rule of its own. */
  readonly ranges: number;
}

/** CPU time of the planner alone, in a settled cluster: no API server, no ARM. Sizes are lists: the growth is a table. */
export const plannerBench: Bench = {
  about: "plan one change of a settled cluster, without requests: CPU time by number of Services and nodes",
  options: { services: "100,300,1000", nodes: "500,5000", ports: "1", balancers: "1", ranges: "0", plans: "20" },
  run(options) {
    const sizes = (name: string): readonly number[] => (options[name] ?? "").split(",").map(Number);
    const [ports, balancers, ranges] = [
      numberOf(options, "ports"),
      numberOf(options, "balancers"),
      numberOf(options, "ranges"),
    ];
    const figures: Figure[] = [];
    for (const services of sizes("services"))
      for (const nodes of sizes("nodes")) {
        const cluster = settledCluster(services, nodes, { ports, balancers, ranges });
        for (const [name, change] of Object.entries(changes))
          figures.push({
            name: `${services} Services, ${nodes} nodes: ${name}`,
            value: cpuOf(cluster, change, numberOf(options, "plans")),
            unit: "ms of CPU, median",
            aim: "under 20 ms",
          });
      }
    return Promise.resolve(figures);
  },
};

/** Half of the Services are internal: a load balancer has at most 600 frontends. */
function settledCluster(services: number, nodes: number, { ports, balancers, ranges }: Edge): Settled {
  const sets = Array.from({ length: balancers }, (_, index) => `vmss${index}`);
  const config = plannerConfigOf({
    loadBalancerBackendPoolConfigurationType: "nodeIP",
    ...(balancers > 1 && {
      multipleStandardLoadBalancerConfigurations: sets.map((primaryVMSet, index) => ({
        name: index === 0 ? "kubernetes" : `lb${index}`,
        primaryVMSet,
      })),
    }),
  });
  const list = Array.from({ length: nodes }, (_, index) => nodeOf(index));
  const intents = Array.from({ length: services }, (_, index) => {
    const uid = new Bun.CryptoHasher("md5").update(`${index}`).digest("hex");
    const own = Array.from({ length: ranges }, (_one, range) => `20.${index >> 8}.${index & 255}.${range * 2}/32`);
    const spec = { ports: portsOf(ports), ...(ranges > 0 && { loadBalancerSourceRanges: own }) };
    return intentOf({ name: `web-${index}`, uid, nodes: list, spec, annotations: index % 2 === 0 ? internal : {} });
  });
  const vmSets = new Map(list.map(({ metadata }, index) => [metadata?.name ?? "", sets[index % balancers] ?? ""]));
  const start = world({ nodes: list, services: intents.map(({ service }) => service), vmSets });
  const { observed, last } = converge(intents, start, config);
  const settled = intents.map((intent) => {
    const { name } = intent.service.metadata ?? {};
    const loadBalancer = last.results.get(`default/${name}`)?.status ?? {};
    return { ...intent, service: { ...intent.service, status: { loadBalancer } } };
  });
  return { intents: settled, observed: { ...observed, services: settled.map(({ service }) => service) }, config };
}

const nodeOf = (index: number): Node => ({
  metadata: { name: `node-${index}`, labels: {} },
  spec: { providerID: `azure:///node-${index}` },
  status: {
    addresses: [{ type: "InternalIP", address: `10.${100 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}` }],
  },
});

type Change = (cluster: Settled, run: number) => Pick<Settled, "intents" | "observed">;

/** Each run has a change of its own: nothing of the plan before is the answer. */
const changes: Readonly<Record<string, Change>> = {
  "no change": ({ intents, observed }) => ({ intents, observed }),
  "one node less": ({ intents, observed }, run) => {
    const nodes = observed.nodes.toSpliced(run, 1);
    return { intents: intents.map((intent) => ({ ...intent, nodes })), observed: { ...observed, nodes } };
  },
  "one Service more ports": ({ intents, observed }, run) => {
    const known = intents[run % intents.length];
    if (known === undefined) return { intents: [], observed };
    const port = { name: "more", protocol: "TCP", port: 8000 + run, nodePort: 31_000 + run };
    const ports = [...(known.service.spec?.ports ?? []), port];
    const service = { ...known.service, spec: { ...known.service.spec, ports } };
    const services = observed.services.map((one) => (one === known.service ? service : one));
    return { intents: [{ ...known, service }], observed: { ...observed, services } };
  },
};

function cpuOf(cluster: Settled, change: Change, runs: number): number {
  for (let warm = 0; warm < 5; warm += 1) plan(...inputOf(cluster, change, warm));
  const times = Array.from({ length: runs }, (_, run) => {
    const input = inputOf(cluster, change, run + 5);
    const begun = process.cpuUsage();
    plan(...input);
    const { user, system } = process.cpuUsage(begun);
    return (user + system) / 1000;
  });
  return percentile(times, 0.5);
}

function inputOf(cluster: Settled, change: Change, run: number): Parameters<typeof plan> {
  const { intents, observed } = change(cluster, run);
  return [intents, observed, cluster.config];
}
