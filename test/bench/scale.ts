import { appendFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

import {
  controllerNames,
  forEachConcurrently,
  isNotFound,
  isUninitialized,
  kinds,
  type KubeClient,
  type Node,
} from "cloud-controller-host/sdk";

import { createClient } from "../../host/kube/connection/client.ts";
import { createTransport } from "../../host/kube/connection/transport.ts";
import { SandboxApiServer } from "../../sdk/testing/api-server/index.ts";
import type { Cluster } from "../envtest/cluster.ts";
import { createNode, simulateAzure, type SimulatedAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";
import { hostUser, rolesOf } from "../kit/host-roles.ts";
import { realNode } from "../kit/real-node.ts";
import { watchProgress } from "./progress.ts";
import { gapsOf } from "./reload.ts";
import { type Bench, type Figure, medians, percentile } from "./report.ts";
import { Subject } from "./subject.ts";
import { cpuSecondsOf, engineSettings, loadAverage, mainOf, memoryOf, numberOf, realCluster, until } from "./world.ts";

/** A kubelet reports an unchanged status this often; its lease, which is renewed more often, is not watched. */
const statusReportSeconds = 300;

/** Status reports reach a standby for so long before the leader stops, as they do in any real rollout. */
const settleMs = 2000;

/** The deletion guard of the node lifecycle controller would hold more than this at once. */
const maxRemovedShare = 0.09;

/** What a large cluster costs over the life of a host, beyond the first pass that `nodes` measures. */
export const scaleBench: Bench = {
  about: "initialize, rest, add and remove nodes, reload, restart and hand over in a cluster with very many nodes",
  options: {
    nodes: "15000",
    server: "real",
    main: "host/main.ts",
    reloads: "100",
    removed: "1000",
    rest: "60s",
    limit: "900s",
    runs: "1",
  },
  async run(options) {
    const runs: (readonly Figure[])[] = [];
    while (runs.length < numberOf(options, "runs")) runs.push(await runOnce(options));
    return medians(runs);
  },
};

type Place = Pick<Cluster, "kubeconfig"> & { readonly admin: KubeClient };

async function runOnce(options: Readonly<Record<string, string>>): Promise<readonly Figure[]> {
  await using stack = new AsyncDisposableStack();
  const [count, limitMs] = [numberOf(options, "nodes"), numberOf(options, "limit")];
  const azure = stack.use(await simulateAzure());
  const controllers = [controllerNames.cloudNode, controllerNames.cloudNodeLifecycle];
  const place =
    options["server"] === "sandbox"
      ? await sandbox(stack, azure.folder)
      : await real(stack, await rolesOf(controllers));
  const names = (await azure.simulator.addInstances(count)).map(({ nodeName }) => nodeName);
  await forEachConcurrently({ workers: 32 }, names, (name) => createNode(place.admin, realNode(name)));
  const progress = stack.use(await watchProgress(place, azure.folder, kinds.Node, isDone));
  const flags = [
    `--kubeconfig=${await place.kubeconfig(hostUser)}`,
    `--cloud-config=${azure.config}`,
    `--controllers=${controllers.join(",")}`,
    "--enable-dynamic-reloading",
    "--concurrent-node-syncs=64",
    "--kube-api-qps=-1",
  ];
  const environment = await engineSettings();
  const main = await mainOf(stack, options["main"] ?? "");
  const start = (): Subject =>
    new Subject(stack.use(new HostProcess({ flags, environment, patienceMs: limitMs, main })));
  const load = loadAverage();

  const first = start();
  const started = performance.now();
  const seconds = (): number => (performance.now() - started) / 1000;
  const firstNode = async (): Promise<number> => {
    await progress.reached(1, limitMs);
    return seconds();
  };
  const [firstSeconds, startStall] = await Promise.all([firstNode(), first.running("start")]);
  await progress.reached(count, limitMs);
  const allSeconds = seconds();
  await first.idle(limitMs);
  const initialized: readonly Figure[] = [
    { name: "nodes", value: count },
    { name: "server", value: options["server"] ?? "" },
    { name: "loadAverage", value: load, unit: "over the minute before" },
    { name: "firstSeconds", value: firstSeconds, unit: "s from the start of the process", aim: "at most 3 s" },
    { name: "allSeconds", value: allSeconds, unit: "s until the last node is initialized" },
    { name: "cpuSeconds", value: await cpuSecondsOf(first.host.pid), unit: "s of one processor until then" },
    ...startStall,
    ...(await first.standing("initialized")),
  ];
  const eventsBegan = performance.now();
  await first.silent(limitMs);
  const events: Figure = {
    name: "eventsSeconds",
    value: (performance.now() - eventsBegan) / 1000,
    unit: "s from there until the nodes' events are written",
  };
  const rested = await rest(first, place.admin, names, numberOf(options, "rest"));
  const added = await addOne(first, place.admin, () => azure.simulator.addInstances(1));
  const reloaded = await reload(first, azure.config, numberOf(options, "reloads"));
  await first.host.stop();

  const restarted = performance.now();
  const second = start();
  const restartStall = await second.running("restartStart");
  const runningSeconds = (performance.now() - restarted) / 1000;
  await second.idle(limitMs);
  const restart: readonly Figure[] = [
    { name: "restartSeconds", value: runningSeconds, unit: "s until controllers run" },
    { name: "restartIdleSeconds", value: (performance.now() - restarted) / 1000, unit: "s until all is verified" },
    { name: "restartCpuSeconds", value: await cpuSecondsOf(second.host.pid), unit: "s of one processor until then" },
    ...restartStall,
    ...(await second.standing("restart")),
  ];
  const third = start();
  await third.host.until("a host stands by", ({ generation, running }) => generation === 1 && !running);
  const standby = await third.standing("standby");
  const gone = names.slice(0, Math.min(numberOf(options, "removed"), Math.floor(count * maxRemovedShare)));
  await removeMachines(place.admin, azure, gone);
  const over = new AbortController();
  const reporting = reportStatuses(place.admin, names.slice(gone.length), () => over.signal.aborted);
  await Bun.sleep(settleMs);
  const handedOver = await handOver(second, third, place.admin, gone).finally(() => over.abort());
  await reporting;
  await third.host.stop();
  return [...initialized, events, ...rested, ...added, ...reloaded, ...restart, ...standby, ...handedOver];
}

async function real(stack: AsyncDisposableStack, roles: Awaited<ReturnType<typeof rolesOf>>): Promise<Place> {
  const cluster = await realCluster(stack, { audited: false });
  await cluster.grant(hostUser, roles);
  return cluster;
}

/** The sandbox's API server, in this process, where a real one with etcd needs more than the machine has. */
async function sandbox(stack: AsyncDisposableStack, folder: string): Promise<Place> {
  const api = stack.use(await SandboxApiServer.start());
  const credentials = { tls: { ca: api.ca }, headers: { Authorization: `Bearer ${api.tokens.of("admin")}` } };
  const server = { url: api.url, proxy: undefined, credentials: async () => credentials };
  const transport = createTransport(server, { userAgent: "bench", qps: -1 });
  stack.defer(() => transport.close());
  return {
    admin: createClient(transport),
    async kubeconfig(user) {
      const path = join(folder, `${user}.kubeconfig`);
      await writeFile(path, api.kubeconfig(user));
      return path;
    },
  };
}

const isDone = (node: Node): boolean =>
  !isUninitialized(node) && (node.status?.addresses?.some(({ type }) => type === "InternalIP") ?? false);

/** Each node reports its status as often as a kubelet does, until `ended`. Resolves to the number of reports. */
async function reportStatuses(admin: KubeClient, names: readonly string[], ended: () => boolean): Promise<number> {
  const begun = performance.now();
  let sent = 0;
  while (!ended()) {
    const elapsed = performance.now() - begun;
    const due = Math.floor((names.length * elapsed) / 1000 / statusReportSeconds);
    for (; sent < due; sent++) {
      const at = new Date().toISOString().replace(/\.\d+Z$/, "Z");
      const status = { conditions: [{ type: "Ready", lastHeartbeatTime: at }] };
      const name = names[sent % names.length] ?? "";
      await admin.patch(kinds.Node, { name }, "strategic", { status }, { subresource: "status" });
    }
    await Bun.sleep(10);
  }
  return sent;
}

async function rest(
  subject: Subject,
  admin: KubeClient,
  names: readonly string[],
  restMs: number,
): Promise<readonly Figure[]> {
  await subject.standing("");
  const [cpuBefore, begun] = [await cpuSecondsOf(subject.host.pid), performance.now()];
  const sent = await reportStatuses(admin, names, () => performance.now() - begun >= restMs);
  const seconds = (performance.now() - begun) / 1000;
  const percent = (100 * (await cpuSecondsOf(subject.host.pid)) - 100 * cpuBefore) / seconds;
  return [
    { name: "statusReportsPerSecond", value: sent / seconds, unit: `1/s: each node every ${statusReportSeconds} s` },
    { name: "restCpuPercent", value: percent, unit: "% of one processor at rest", aim: "at most 3 %" },
    ...(await subject.standing("rest")),
  ];
}

async function addOne(
  subject: Subject,
  admin: KubeClient,
  addInstance: () => Promise<readonly { readonly nodeName: string }[]>,
): Promise<readonly Figure[]> {
  const [added] = await addInstance();
  const name = added?.nodeName ?? "";
  const begun = performance.now();
  await createNode(admin, realNode(name));
  await subject.host.eventually("the node is initialized", async () => isDone(await admin.get(kinds.Node, { name })));
  return [
    { name: "oneNodeMs", value: Math.round(performance.now() - begun), unit: "ms until one more is initialized" },
  ];
}

async function reload(subject: Subject, config: string, times: number): Promise<readonly Figure[]> {
  let warm = 0;
  for (let index = 1; index <= times; index++) {
    const { generation } = await subject.host.status();
    await appendFile(config, `# ${index}\n`);
    await subject.host.until("the next generation runs", (now) => now.generation > generation && now.running);
    if (index === Math.ceil(times / 2)) warm = await memoryOf(subject.host.pid, "VmRSS");
  }
  const gaps = await gapsOf(subject.host, times);
  return [
    { name: "reloads", value: gaps.length },
    { name: "reloadP50Ms", value: percentile(gaps, 0.5), unit: "ms during which no controller ran" },
    { name: "reloadP99Ms", value: percentile(gaps, 0.99), unit: "ms", aim: "10 at 5,000, 20 at 15,000, 60 at 50,000" },
    { name: "rssHalfMiB", value: warm, unit: "MiB after half of the reloads" },
    ...(await subject.standing("reload")),
  ];
}

/** Deletes machines, whose kubelets then fall silent. */
async function removeMachines(admin: KubeClient, azure: SimulatedAzure, names: readonly string[]): Promise<void> {
  for (const name of names) await azure.simulator.removeInstance(name);
  const lost = { conditions: [{ type: "Ready", status: "Unknown", reason: "NodeStatusUnknown" }] };
  await forEachConcurrently({ workers: 32 }, names, async (name) => {
    await admin.patch(kinds.Node, { name }, "strategic", { status: lost }, { subresource: "status" });
  });
}

/**
 * Stops a leader cleanly beside a standby, which has read nothing of Azure yet and therefore sees at once which machines
 * are gone. A leader would see it when its lists are read again, within ten minutes.
 */
async function handOver(
  leader: Subject,
  standby: Subject,
  admin: KubeClient,
  gone: readonly string[],
): Promise<readonly Figure[]> {
  const begun = performance.now();
  leader.host.signal("SIGTERM");
  await standby.host.until("the standby leads", ({ running }) => running);
  const ms = Math.round(performance.now() - begun);
  await leader.host.ended();
  for (const name of gone)
    await until(`${name} is deleted`, async () => !(await exists(admin, name)), {
      state: () => standby.host.stderr.slice(-2000),
    });
  return [
    { name: "handOverMs", value: ms, unit: "ms from the signal until the standby's controllers run" },
    { name: "removedNodes", value: gone.length },
    {
      name: "removedSeconds",
      value: (performance.now() - begun) / 1000,
      unit: "s until nodes without a VM are deleted",
    },
    ...(await standby.standing("handOver")),
  ];
}

async function exists(admin: KubeClient, name: string): Promise<boolean> {
  try {
    await admin.get(kinds.Node, { name });
    return true;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}
