import { appendFile } from "node:fs/promises";

import { CodedError, controllerNames, forEachConcurrently, kinds, type Lease } from "cloud-controller-host/sdk";

import { freshNode } from "../../host/sandbox/kubelet.ts";
import { writeVerbs } from "../envtest/audit.ts";
import { createNode, simulateAzure } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";
import { hostUser, rolesOf } from "../kit/host-roles.ts";
import { type OpenPages, openPages } from "./pages.ts";
import { type Bench, type Figure, percentile } from "./report.ts";
import { engineSettings, memoryOf, numberOf, realCluster, until } from "./world.ts";

/** The first reloads compile code and fill caches. */
const warmReloads = 50;
/** With pages, blocks of this many reloads with and without them alternate: other load affects both alike. */
const block = 10;
const isWrite = (what: string): boolean =>
  writeVerbs.some((verb) => what.startsWith(`${verb} `)) && !/ (leases|events)$/.test(what);

const sum = (entries: readonly (readonly [string, number])[]): number =>
  entries.reduce((all, [, count]) => all + count, 0);

/** What a reload costs in a large cluster: the gap without controllers, requests, memory. */
export const reloadBench: Bench = {
  about: "change the cloud config again and again in a cluster with many nodes",
  options: { nodes: "5000", times: "500", pages: "0" },
  async run(options) {
    await using stack = new AsyncDisposableStack();
    const cluster = await realCluster(stack, { audited: true });
    const azure = stack.use(await simulateAzure());
    const machines = await azure.simulator.addInstances(numberOf(options, "nodes"));
    await forEachConcurrently({ workers: 32 }, machines, ({ nodeName }) => {
      const node = freshNode(nodeName, new Date());
      return createNode(cluster.admin, { ...node, spec: {} });
    });
    const controllers = [controllerNames.cloudNode, controllerNames.cloudNodeLifecycle];
    await cluster.grant(hostUser, await rolesOf(controllers));
    const begin = await cluster.audit.mark();
    const host = stack.use(
      new HostProcess({
        environment: await engineSettings(),
        flags: [
          `--kubeconfig=${await cluster.kubeconfig(hostUser)}`,
          `--cloud-config=${azure.config}`,
          `--controllers=${controllers.join(",")}`,
          "--enable-dynamic-reloading",
          "--node-status-update-frequency=1h",
          "--kube-api-qps=-1",
        ],
      }),
    );
    await host.until("the first generation runs", ({ running }) => running);
    // The first pass over all nodes writes their labels and addresses; reloads are measured when it is over.
    await quiet(async () => {
      const counts = await cluster.audit.counts({ user: hostUser, since: begin });
      return azure.simulator.requests().length + sum(Object.entries(counts).filter(([what]) => isWrite(what)));
    });
    const lease = async (): Promise<Lease["spec"]> => {
      const found: Lease = await cluster.admin.get(kinds.Lease, {
        namespace: "kube-system",
        name: "cloud-controller-manager",
      });
      return found.spec;
    };
    const mark = await cluster.audit.mark();
    const armMark = azure.simulator.requests().length;
    const before = { rss: await memoryOf(host.pid, "VmRSS"), lease: await lease() };
    const pages = numberOf(options, "pages");
    let open: OpenPages | undefined;
    let rssWithPages = 0;
    let pageReads = 0;
    const close = async (): Promise<void> => {
      pageReads += open?.reads ?? 0;
      await open?.[Symbol.asyncDispose]();
      open = undefined;
    };
    stack.defer(close);
    /** One entry per reload: true if pages were open. */
    const hadPages: boolean[] = [];

    const times = numberOf(options, "times");
    const warmed = Math.min(warmReloads, times - 1);
    let warmRss = before.rss;
    for (let index = 0; index < times; index++) {
      if (index === warmed) warmRss = await memoryOf(host.pid, "VmRSS");
      if (pages > 0 && index % block === 0) {
        await close();
        if ((index / block) % 2 === 1) open = await openPages(host, pages);
        if (open !== undefined) rssWithPages = Math.max(rssWithPages, await memoryOf(host.pid, "VmRSS"));
      }
      hadPages.push(open !== undefined);
      const { generation } = await host.status();
      await appendFile(azure.config, `# ${index}\n`);
      await host.until("the next generation runs", (status) => status.generation > generation && status.running);
    }

    await close();
    const gaps = await gapsOf(host, times);
    const counts = await cluster.audit.counts({ user: hostUser, since: mark });
    const lists = Object.entries(counts).filter(([what]) => what.startsWith("list "));
    const writes = Object.entries(counts).filter(([what]) => isWrite(what));
    const armWrites = azure.simulator
      .requests()
      .slice(armMark)
      .filter((request) => /^(PUT|PATCH|DELETE) /.test(request)).length;
    const after = { rss: await memoryOf(host.pid, "VmRSS"), lease: await lease() };
    await host.stop();
    const figures: readonly Figure[] = [
      { name: "reloads", value: gaps.length },
      { name: "p50Ms", value: percentile(gaps, 0.5), unit: "ms during which no controller ran" },
      { name: "p99Ms", value: percentile(gaps, 0.99), unit: "ms", aim: "at most 50 ms" },
      ...(pages === 0 ? [] : pageFigures(gaps, hadPages)),
      ...(pages === 0
        ? []
        : [
            { name: "pageReads", value: pageReads, unit: "views that open pages read" },
            {
              name: "perPageMiB",
              value: Math.max(0, rssWithPages - warmRss) / pages,
              unit: `MiB above the memory after ${warmed} reloads, by page`,
              aim: "at most 10",
            },
          ]),
      { name: "lists", value: sum(lists), aim: "0" },
      { name: "writes", value: sum(writes), unit: "besides the lease and events", aim: "0" },
      { name: "armWrites", value: armWrites, aim: "0" },
      {
        name: "leaseTransitions",
        value: (after.lease?.leaseTransitions ?? 0) - (before.lease?.leaseTransitions ?? 0),
        aim: "0",
      },
      { name: "rssBeforeMiB", value: before.rss, unit: "MiB" },
      { name: "rssWarmMiB", value: warmRss, unit: `MiB after ${warmed} reloads` },
      { name: "rssAfterMiB", value: after.rss, unit: "MiB after all" },
      { name: "rssRatio", value: (after.rss / warmRss).toFixed(2), unit: "after all to warm", aim: "at most 1.05" },
    ];
    return figures;
  },
};

/** The gap of each reload. A generation runs a moment before its reload is logged. */
export async function gapsOf(host: HostProcess, reloads: number): Promise<readonly number[]> {
  const lines = (): readonly string[] => host.lines("Reload completed");
  await until(`${reloads} reloads are logged`, () => lines().length >= reloads);
  return lines().map((line) => Number(/gapMs=([\d.]+)/.exec(line)?.[1]));
}

/** The gaps of warm reloads beside open pages, and those of the others in between. */
export function pageFigures(gaps: readonly number[], hadPages: readonly boolean[]): readonly Figure[] {
  const first = gaps.length >= warmReloads * 2 ? warmReloads : 0;
  const [without, beside] = [false, true].map((open) =>
    gaps.filter((_, index) => index >= first && hadPages[index] === open),
  );
  if (!without?.length || !beside?.length)
    throw new CodedError("NotReached", `pages need more than ${block} reloads: raise --times`);
  return [0.5, 0.99].flatMap((share) => {
    const [plain, slower] = [percentile(without, share), percentile(beside, share)];
    const name = `p${share * 100}`;
    return [
      { name: `${name}WithoutPagesMs`, value: plain, unit: `ms, of ${without.length} reloads` },
      { name: `${name}WithPagesMs`, value: slower, unit: `ms, of ${beside.length} reloads` },
      { name: `${name}PagesRatio`, value: (slower / plain).toFixed(2), ...(share === 0.99 && { aim: "at most 1.2" }) },
    ];
  });
}

/** Resolves when a count has not moved for two seconds; at most a minute. */
async function quiet(count: () => Promise<number>): Promise<void> {
  let last = await count();
  for (let still = 0, waited = 0; still < 4 && waited < 120; waited++) {
    await Bun.sleep(500);
    const now = await count();
    still = now === last ? still + 1 : 0;
    last = now;
  }
}
