import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";

import { forEachConcurrently, kinds } from "cloud-controller-host/sdk";

import { SandboxLab } from "../host/sandbox-lab.ts";
import { joinNodes } from "../kit/azure.ts";
import type { HostProcess } from "../kit/host-process.ts";
import { addressesOf, balancedService, deleteService } from "../kit/services.ts";
import { growthOf } from "./growth.ts";
import type { Bench, Figure } from "./report.ts";
import { numbers } from "./services-lab.ts";
import { engineSettings, loadAverage, memoryOf, numberOf, until } from "./world.ts";

/**
 * Rounds in which code is compiled and caches are filled; they are not sampled. The last to fill is the correlator of
 * events, with the latest 4,096 events and objects (`host/kube/events/correlator.ts`): some four to a Service.
 */
const warmShare = 0.4;
const scrapesPerRound = 5;

/** What must not grow from round to round, however long a host runs. */
const measured = {
  rssMiB: "MiB resident",
  heapMiB: "MiB of heap in use",
  openFiles: "file descriptors",
  threads: "threads",
  temporaryFiles: "files in its temporary folder",
  metricSeries: "series in /metrics",
} as const;

type Sample = Readonly<Record<keyof typeof measured, number>>;

/**
 * Accelerated days of a cluster: each round reloads, creates and deletes Services, replaces a node, breaks all watches,
 * ends their history, revokes the cloud's tokens and scrapes the metrics.
 */
export const soakBench: Bench = {
  about: "repeat what a cluster does in days, and measure what grows from round to round",
  options: { rounds: "75", nodes: "100", services: "40", limit: "900s" },
  async run(options) {
    await using lab = await SandboxLab.open();
    const temporary = join(lab.azure.folder, "temporary");
    await mkdir(temporary);
    const controllers = "--controllers=*,-node-route-controller,-node-ipam";
    const host = lab.start({
      flags: [controllers, "--configure-cloud-routes=false", "--enable-dynamic-reloading", "--kube-api-qps=-1"],
      environment: { ...(await engineSettings()), TMPDIR: temporary },
    });
    await host.until("the first generation runs", ({ running }) => running);
    const nodes = [...(await joinNodes(lab.admin, lab.azure, numberOf(options, "nodes")))];
    const rounds = numberOf(options, "rounds");
    const warm = Math.floor(warmShare * rounds);
    const deadline = performance.now() + numberOf(options, "limit");
    const load = loadAverage();
    const samples: Sample[] = [];
    let round = 0;
    for (; round < rounds && performance.now() < deadline; round++) {
      await live(
        lab,
        host,
        nodes,
        numbers(numberOf(options, "services")).map((index) => `soak-${round}-${index}`),
      );
      const sample = await sampleOf(host, temporary);
      if (round >= warm) samples.push(sample);
    }
    await host.stop();
    return [
      { name: "rounds", value: round, unit: "each a reload, Services, a node, broken watches, a revoked token" },
      { name: "loadAverage", value: load, unit: "over the minute before" },
      ...(await figuresOf(samples)),
      { name: "leftFiles", value: (await readdir(temporary)).length, unit: "files in /tmp after its end", aim: "0" },
    ];
  },
};

/** One round. Resolves when the host has followed all of it. */
async function live(lab: SandboxLab, host: HostProcess, nodes: string[], names: readonly string[]): Promise<void> {
  await forEachConcurrently({ workers: 8 }, names, async (name) => {
    await lab.admin.create(kinds.Service, balancedService(name));
  });
  const service = (name: string) => lab.api.get(kinds.Service, { namespace: "default", name });
  await until("all Services have an address", () => names.every((name) => addressesOf(service(name)).length > 0));
  const { generation } = await host.status();
  await lab.changeConfig();
  await host.until("the next generation runs", (status) => status.generation > generation && status.running);
  lab.api.watches.drop("abort");
  lab.api.compact();
  lab.azure.simulator.revokeTokens();
  const [gone = ""] = nodes;
  nodes.splice(0, 1);
  await lab.azure.simulator.removeInstance(gone);
  await lab.admin.delete(kinds.Node, { name: gone });
  nodes.push(...(await joinNodes(lab.admin, lab.azure, 1)));
  await forEachConcurrently({ workers: 8 }, names, (name) => deleteService(lab.admin, name));
  await until("all Services are gone", () => names.every((name) => service(name) === undefined));
  const newest = (): boolean => lab.api.get(kinds.Node, { name: nodes.at(-1) ?? "" })?.spec?.providerID !== undefined;
  await until("the new node is initialized", newest);
  for (let scrape = 0; scrape < scrapesPerRound; scrape++) await (await host.get("/metrics")).text();
}

async function sampleOf(host: HostProcess, temporary: string): Promise<Sample> {
  const [metrics, openFiles, threads, files] = await Promise.all([
    (await host.get("/metrics")).text(),
    readdir(`/proc/${host.pid}/fd`),
    readdir(`/proc/${host.pid}/task`),
    entriesIn(temporary),
  ]);
  const heap = Number(/^nodejs_heap_size_used_bytes (\S+)$/m.exec(metrics)?.[1] ?? 0);
  return {
    rssMiB: await memoryOf(host.pid, "VmRSS"),
    heapMiB: heap / 1024 ** 2,
    openFiles: openFiles.length,
    threads: threads.length,
    temporaryFiles: files,
    metricSeries: metrics.split("\n").filter((line) => line !== "" && !line.startsWith("#")).length,
  };
}

/** Links are counted, not followed: a copy of a plugin has one to all packages. */
const entriesIn = (folder: string): Promise<number> =>
  Array.fromAsync(new Bun.Glob("**").scan({ cwd: folder, dot: true, onlyFiles: false, followSymlinks: false })).then(
    ({ length }) => length,
  );

const figuresOf = (samples: readonly Sample[]): readonly Figure[] =>
  (["rssMiB", "heapMiB", "openFiles", "threads", "temporaryFiles", "metricSeries"] as const).flatMap((name) => {
    const values = samples.map((sample) => sample[name]);
    const { slope, error } = growthOf(values);
    const range = `${measured[name]}, from ${Math.round(Math.min(...values))} to ${Math.round(Math.max(...values))}`;
    return [
      { name, value: values.at(-1) ?? 0, unit: range },
      {
        name: `${name}Growth`,
        value: slope,
        unit: `per round, ± ${error.toFixed(3)}`,
        aim: slope - error > 0 ? "at most 0 within its error: it grows" : "at most 0 within its error",
      },
    ];
  });
