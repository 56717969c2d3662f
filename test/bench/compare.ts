import { copyFile, writeFile } from "node:fs/promises";
import { resolve } from "node:path";

import { CodedError, controllerNames, forEachConcurrently, isUninitialized, kinds } from "cloud-controller-host/sdk";

import type { Cluster } from "../envtest/cluster.ts";
import { createNode, simulateAzure, type SimulatedAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";
import { realNode } from "../kit/real-node.ts";
import { balancedService } from "../kit/services.ts";
import { watchProgress } from "./progress.ts";
import type { Bench, Figure } from "./report.ts";
import { addNode, createAll, hasAddress, numbers, requestsOf, type ServicesLab, stateOf } from "./services-lab.ts";
import { cpuSecondsOf, engineSettings, memoryOf, numberOf, realCluster, until } from "./world.ts";

/** Limit of the nodes, of the reload and of the hand-over: a figure reports when it is exceeded. The rest has that of `phaseMs`. */
const limitMs = 120_000;
/** ARM counts as idle after this time without a request. */
const quietMs = 5_000;

/**
 * The same work for this host and for another cloud-controller-manager that takes the same flags, such as the Go
 * provider: one after the other, each with the default limits of its client, on one API server, and measured only from
 * outside. A manager that ends at the reload is restarted, as by kubelet; at any other time the bench fails with its log.
 */
export const compareBench: Bench = {
  about: "do the same work with this host and with the Go binary at PATH, and print both side by side",
  options: { go: "", nodes: "100", services: "50", "arm-latency": "20ms" },
  async run(options) {
    const binary = options["go"] ?? "";
    if (binary === "")
      throw new CodedError("BadOption", "--go is empty: the path of a cloud-controller-manager is wanted");
    const path = resolve(binary);
    if (Bun.which(path) === null) throw new CodedError("BadOption", `--go=${binary}: not an executable file`);
    await using stack = new AsyncDisposableStack();
    const cluster = await realCluster(stack, { audited: false });
    const ours = await runAll({ cluster, options, environment: await engineSettings() });
    const theirs = await runAll({ cluster, options, environment: {}, program: [path] });
    return ours.map((figure, index) => ({ ...figure, against: theirs[index]?.value ?? "" }));
  },
};

/** A manager that is measured. */
interface Candidate {
  readonly cluster: Cluster;
  readonly options: Readonly<Record<string, string>>;
  readonly environment: Readonly<Record<string, string>>;
  /** Default: this host. */
  readonly program?: readonly string[];
}

async function runAll(candidate: Candidate): Promise<readonly Figure[]> {
  const figures = [...(await initialize(candidate)), ...(await balance(candidate))];
  await candidate.cluster.cleanSlate();
  return figures;
}

/** Nodes that have joined before the manager starts. */
async function initialize(candidate: Candidate): Promise<readonly Figure[]> {
  const { cluster, options } = candidate;
  await cluster.cleanSlate();
  await using azure = await simulateAzure({ latencyMs: numberOf(options, "arm-latency") });
  const count = numberOf(options, "nodes");
  const names = (await azure.simulator.addInstances(count)).map(({ nodeName }) => nodeName);
  await forEachConcurrently({ workers: 32 }, names, (name) => createNode(cluster.admin, realNode(name)));
  await using progress = await watchProgress(cluster, azure.folder, kinds.Node, (node) => !isUninitialized(node));
  const began = performance.now();
  await using manager = await start(candidate, azure, controllerNames.cloudNode);
  const seconds = await whileRuns(manager, outcomeOf(progress.reached(count, limitMs), began));
  await manager.stop();
  return [{ name: "nodesSeconds", value: seconds, unit: "s from the start until all are initialized" }];
}

/** Services, a restart in which nothing has changed, a reload and a hand-over. */
async function balance(candidate: Candidate): Promise<readonly Figure[]> {
  const { cluster, options } = candidate;
  await cluster.cleanSlate();
  await using stack = new AsyncDisposableStack();
  const latencyMs = numberOf(options, "arm-latency");
  const azure = stack.use(await simulateAzure({ latencyMs }));
  const { simulator, config, folder } = azure;
  const progress = stack.use(await watchProgress(cluster, folder, kinds.Service, hasAddress, stateOf));
  const lab: ServicesLab = { cluster, simulator, config, latencyMs, progress };
  await forEachConcurrently({ workers: 32 }, numbers(numberOf(options, "nodes")), () => addNode(lab));
  const launch = async (): Promise<HostProcess> => stack.use(await start(candidate, azure, controllerNames.serviceLB));

  const first = await launch();
  const holder = await whileRuns(first, leads(cluster));
  await quiet(lab);
  const services = numberOf(options, "services");
  const created = await whileRuns(first, createAll(lab, 0, services, "services", {}));
  const used: readonly Figure[] = [
    { name: "cpuSeconds", value: await cpuSecondsOf(first.pid), unit: "s of one processor until then" },
    { name: "peakRssMiB", value: await memoryOf(first.pid, "VmHWM"), unit: "MiB at most until then" },
  ];
  await first.stop();

  simulator.clearLog();
  const restarted = performance.now();
  const second = await launch();
  await whileRuns(second, leads(cluster, holder));
  const leadsSeconds = (performance.now() - restarted) / 1000;
  const quietSeconds = ((await quiet(lab)) - restarted) / 1000;
  const restart: readonly Figure[] = [
    { name: "restartSeconds", value: quietSeconds, unit: "s until the last request to ARM" },
    { name: "restartLeadsSeconds", value: leadsSeconds, unit: "s after the one before was stopped cleanly" },
    ...requestsOf(simulator, "restart", {}),
  ];

  const next = await reload(lab, second, launch, services);
  await launch();
  // Its watches stand, as in any rollout.
  await Bun.sleep(quietMs);
  next.leader.signal("SIGTERM");
  const handedOver = await serve(lab, services + 1);
  return [
    { name: "nodes", value: numberOf(options, "nodes") },
    { name: "services", value: services },
    ...created,
    ...used,
    ...restart,
    ...next.figures,
    {
      name: "handOverSeconds",
      value: handedOver,
      unit: "s from SIGTERM until a Service that is created then has an address",
    },
  ];
}

/** Copies a cloud config with one comment more over the old one, as `cp` does, and creates a Service. */
async function reload(
  lab: ServicesLab,
  leader: HostProcess,
  launch: () => Promise<HostProcess>,
  index: number,
): Promise<{ readonly leader: HostProcess; readonly figures: readonly Figure[] }> {
  let [now, ending, isOver] = [leader, "no", false];
  const startAgain = async (): Promise<void> => {
    const status = await leader.ended();
    if (isOver) return;
    ending = `yes, with status ${status}`;
    now = await launch();
  };
  const watching = startAgain();
  let seconds: number | string;
  try {
    const changed = `${lab.config}.changed`;
    await writeFile(changed, `${await Bun.file(lab.config).text()}# changed\n`);
    await copyFile(changed, lab.config);
    await Bun.sleep(1_000);
    seconds = await serve(lab, index);
  } finally {
    // From here on, a manager that ends is not started again.
    isOver = true;
    if (ending === "no") watching.catch(() => undefined);
    else await watching;
  }
  return {
    leader: now,
    figures: [
      {
        name: "reloadSeconds",
        value: seconds,
        unit: "s until a Service that is created a second later has an address",
      },
      { name: "reloadEndsProcess", value: ending },
    ],
  };
}

async function serve({ cluster, progress }: ServicesLab, index: number): Promise<number | string> {
  const began = performance.now();
  await cluster.admin.create(kinds.Service, balancedService(`web-${index}`));
  return outcomeOf(progress.reached(index + 1, limitMs), began);
}

/** Rejects with the end of its log when a manager ends before the work does. */
async function whileRuns<T>(manager: HostProcess, work: Promise<T>): Promise<T> {
  const ending = manager.ended().then((status): never => {
    throw new CodedError("ManagerEnded", `the manager ended with status ${status}\n${manager.stderr.slice(-2000)}`);
  });
  return Promise.race([work, ending]);
}

async function outcomeOf(work: Promise<void>, began: number): Promise<number | string> {
  try {
    await work;
    return (performance.now() - began) / 1000;
  } catch (error) {
    if (error instanceof CodedError && error.code === "NotReached") return `not in ${limitMs / 1000} s`;
    throw error;
  }
}

async function start(
  { cluster, program, environment }: Candidate,
  { simulator, config }: SimulatedAzure,
  controllers: string,
): Promise<HostProcess> {
  const kubeconfig = await cluster.kubeconfig("manager", ["system:masters"]);
  return new HostProcess({
    ...(program !== undefined && { program }),
    // What a Go program trusts.
    environment: { ...environment, SSL_CERT_FILE: simulator.caFile },
    flags: [
      "--cloud-provider=azure",
      "--configure-cloud-routes=false",
      "--enable-dynamic-reloading",
      ...["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"].map(
        (flag) => `--${flag}=${kubeconfig}`,
      ),
      `--cloud-config=${config}`,
      `--controllers=${controllers}`,
    ],
  });
}

/** Resolves when another process than before holds the Lease, with its identity. */
async function leads({ admin }: Cluster, before = ""): Promise<string> {
  let holder = "";
  await until("a process leads", async () => {
    const leases = await admin.list(kinds.Lease);
    holder = leases.find(({ metadata }) => metadata?.name === "cloud-controller-manager")?.spec?.holderIdentity ?? "";
    return holder !== "" && holder !== before;
  });
  return holder;
}

/** Resolves when ARM is asked nothing more, with the time of the last request. */
async function quiet({ simulator }: ServicesLab): Promise<number> {
  let [seen, atMs] = [-1, performance.now()];
  await until("ARM is asked nothing", () => {
    if (simulator.log.length !== seen) [seen, atMs] = [simulator.log.length, performance.now()];
    return performance.now() - atMs > quietMs;
  });
  return atMs;
}
