import { writeFile } from "node:fs/promises";

import { controllerNames, forEachConcurrently, kinds } from "cloud-controller-host/sdk";

import { sampleOf } from "../../host/sandbox/testing/exposition.ts";
import { limits } from "../../plugins/azure-cloud/load-balancer/model/limits.ts";
import { simulateAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";
import { hostUser, rolesOf } from "../kit/host-roles.ts";
import { balancedService } from "../kit/services.ts";
import { chainFigure } from "./chain.ts";
import { planCost, type RestartCost } from "./plan-cost.ts";
import { watchProgress } from "./progress.ts";
import type { Bench, Figure } from "./report.ts";
import {
  addNode,
  type Aims,
  createAll,
  hasAddress,
  named,
  numbers,
  requestsOf,
  type ServicesLab,
  stateOf,
} from "./services-lab.ts";
import { cpuSecondsOf, engineSettings, memoryOf, numberOf, realCluster, until } from "./world.ts";

/** How long the write takes behind which Services of the option `slow` are. */
const slowMs = 60_000;

/**
 * What Services of type LoadBalancer cost on a real API server and a simulated Azure: all of them created at once, then
 * as many again, then a restart in which nothing has changed, a plan, and one node more. With `slow`, as many are created a
 * third time, beside others behind a slow write. Writes are answered at once, or with `operations` as by ARM.
 */
export const servicesBench: Bench = {
  about: "give many Services load balancers on a real API server and a simulated Azure",
  options: { services: "50", nodes: "100", "arm-latency": "20ms", again: "true", slow: "0", operations: "false" },
  async run(options) {
    await using stack = new AsyncDisposableStack();
    const services = numberOf(options, "services");
    const slow = numberOf(options, "slow");
    // A load balancer has at most 600 frontends.
    const again = options["again"] === "true" ? Math.max(0, Math.min(services, 600 - services)) : 0;
    const total = services + again + (slow > 0 ? services + slow : 0);
    const isByNodeIP = total > limits.rulesPerInterface;
    const cluster = await realCluster(stack, { audited: false });
    const operationStyle = options["operations"] === "true" ? "azure-asyncoperation" : "none";
    const latencyMs = numberOf(options, "arm-latency");
    const azure = stack.use(await simulateAzure({ latencyMs, operationStyle }));
    const pools = isByNodeIP ? { loadBalancerBackendPoolConfigurationType: "nodeIP" } : {};
    await writeFile(azure.config, azure.simulator.configWith(pools));
    const progress = stack.use(await watchProgress(cluster, azure.folder, kinds.Service, hasAddress, stateOf));
    const lab: ServicesLab = { cluster, simulator: azure.simulator, config: azure.config, latencyMs, progress };
    await forEachConcurrently({ workers: 32 }, numbers(numberOf(options, "nodes")), () => addNode(lab));
    await cluster.grant(hostUser, await rolesOf([controllerNames.serviceLB]));

    const host = stack.use(await startHost(lab));
    await looked(host, "node", 1);
    const figures: Figure[] = [
      { name: "services", value: services },
      { name: "nodes", value: numberOf(options, "nodes") },
      { name: "armLatency", value: options["arm-latency"] ?? "" },
    ];
    figures.push({ name: "pools", value: isByNodeIP ? "nodeIP" : "interfaces" });
    figures.push(...(await createAll(lab, 0, services, "", aimsFor[services] ?? {})));
    if (again > 0) figures.push(...(await createAll(lab, services, again, "again", {})));
    if (slow > 0) figures.push(...(await createBeside(lab, services + again, services, slow)));
    figures.push(...(await usageOf(host, "")));
    await host.stop();

    const [restarted, restart, cost] = await restartOf(lab, total);
    stack.use(restarted);
    figures.push(...restart, ...(await planCost({ ...lab, folder: azure.folder }, cost)));
    figures.push(...(await nodeJoins(lab, restarted, isByNodeIP)));
    figures.push(...(await usageOf(restarted, "restart")));
    await restarted.stop();
    return figures;
  },
};

/** Aims by number of Services. */
const aimsFor: Readonly<Record<number, Aims>> = {
  50: { seconds: "under 1.8 s", "PUT loadBalancers": "at most 8", "PUT networkSecurityGroups": "at most 8" },
  500: { seconds: "under 15 s", "PUT loadBalancers": "at most 30", "PUT networkSecurityGroups": "at most 30" },
};

/** Whatever the number of Services. */
const restartAims: Aims = { seconds: "under 2 s with 500", armReads: "at most 20 with 500", armWrites: "0" };

const balancerPath = "/providers/Microsoft.Network/loadBalancers/kubernetes";

const nodeAims: Aims = {
  "PUT virtualMachines": "at most 1",
  "PUT loadBalancers": "0",
  "PUT networkSecurityGroups": "0",
};

const usageOf = async ({ pid }: HostProcess, phase: string): Promise<readonly Figure[]> => [
  { name: named(phase, "hostCpuSeconds"), value: await cpuSecondsOf(pid), unit: "s of one processor" },
  { name: named(phase, "peakRssMiB"), value: await memoryOf(pid, "VmHWM"), unit: "MiB", aim: "under 250 MiB with 500" },
];

const startHost = async ({ cluster, config }: ServicesLab): Promise<HostProcess> =>
  new HostProcess({
    environment: await engineSettings(),
    flags: [
      `--kubeconfig=${await cluster.kubeconfig(hostUser)}`,
      `--cloud-config=${config}`,
      `--controllers=${controllerNames.serviceLB}`,
      "--kube-api-qps=-1",
    ],
  });

/** How many keys a queue of the controller has handled; 0 while the host does not serve. */
async function handled(host: HostProcess, queue: string): Promise<number> {
  const text = await host
    .get("/metrics")
    .then((response) => response.text())
    .catch(() => "");
  return sampleOf(text, "workqueue_work_duration_seconds_count", { name: queue }) ?? 0;
}

/** Waits until a queue has handled that many keys; seldom asked, because every answer costs the host something. */
const looked = (host: HostProcess, queue: string, times: number): Promise<void> =>
  until(`the ${queue} queue has handled ${times} keys`, async () => (await handled(host, queue)) >= times, {
    everyMs: 100,
    state: () => host.stderr.slice(-2000),
  });

/** Creates Services while `slow` internal ones wait for a write of their load balancer, and waits for these in the end. */
async function createBeside(lab: ServicesLab, from: number, count: number, slow: number): Promise<readonly Figure[]> {
  const { cluster, simulator, progress } = lab;
  const hold = simulator.hold({ method: "PUT", path: /\/loadBalancers\/[^/]+-internal$/u });
  const internal = { "service.beta.kubernetes.io/azure-load-balancer-internal": "true" };
  await forEachConcurrently({ workers: 32 }, numbers(slow), async (index) => {
    const service = balancedService(`slow-${index}`);
    await cluster.admin.create(kinds.Service, { ...service, metadata: { ...service.metadata, annotations: internal } });
  });
  await until("the load balancer of the slow Services is being written", () => hold.waiting() > 0);
  const heldMs = performance.now();
  const figures = await createAll(lab, from, count, "besideSlow", {});
  await Bun.sleep(Math.max(0, heldMs + slowMs - performance.now()));
  hold.release();
  await progress.reached(from + count + slow);
  return figures;
}

/** Starts a host on a cluster in which nothing has changed. */
async function restartOf(lab: ServicesLab, services: number): Promise<[HostProcess, readonly Figure[], RestartCost]> {
  lab.simulator.clearLog();
  const started = performance.now();
  const host = await startHost(lab);
  await looked(host, "service", services);
  const seconds = (performance.now() - started) / 1000;
  const kubernetesReads = await kubernetesReadsOf(host);
  const figures: readonly Figure[] = [
    {
      name: "restartSeconds",
      value: seconds,
      unit: "s from the start of the process",
      aim: restartAims["seconds"] ?? "",
    },
    chainFigure(lab.simulator.log, "restartChainSeconds", lab.latencyMs),
    ...requestsOf(lab.simulator, "restart", restartAims),
    { name: "restartKubernetesReads", value: kubernetesReads },
  ];
  const armReads = Number(figures.find(({ name }) => name === "restartArmReads")?.value ?? 0);
  return [host, figures, { seconds, armReads, kubernetesReads }];
}

async function kubernetesReadsOf(host: HostProcess): Promise<number> {
  const text = await (await host.get("/metrics")).text();
  const samples = text.matchAll(/^rest_client_requests_total\{[^}]*method="GET"[^}]*\} (\d+)/gmu);
  return [...samples].reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Adds a node and waits until the controller has handled it. */
async function nodeJoins(lab: ServicesLab, host: HostProcess, isByNodeIP: boolean): Promise<readonly Figure[]> {
  const { simulator } = lab;
  await looked(host, "node", 1);
  const before = await handled(host, "node");
  simulator.clearLog();
  const started = performance.now();
  await addNode(lab);
  await looked(host, "node", before + 1);
  const instance = simulator.instances("vmss0").at(-1);
  const hasJoined = (): boolean =>
    isByNodeIP
      ? JSON.stringify(simulator.get(balancerPath)?.properties).includes(`"ipAddress":"${instance?.privateIP}"`)
      : JSON.stringify(instance?.networkInterfaceConfigurations).includes("/backendAddressPools/");
  await until("the new node is in a backend pool", hasJoined, { state: () => host.stderr.slice(-2000) });
  const seconds = (performance.now() - started) / 1000;
  return [
    { name: "nodeSeconds", value: seconds, unit: "s until a new node is handled" },
    ...requestsOf(simulator, "node", isByNodeIP ? { ...nodeAims, "PUT loadBalancers": "1" } : nodeAims),
  ];
}
