import { loadavg } from "node:os";
import { resolve } from "node:path";

import { SandboxLab } from "../host/sandbox-lab.ts";
import type { HostProcess } from "../kit/host-process.ts";
import { type Bench, percentile } from "./report.ts";
import { cpuSecondsOf, memoryOf, numberOf } from "./world.ts";

const idleMs = 10_000;

interface Start {
  readonly servingMs: number;
  readonly leadingMs: number;
  readonly cpuSeconds: number;
  readonly idleMiB: number;
}

/** Cold starts of a host with the Azure plugin and all controllers, and its memory at rest. */
export const startBench: Bench = {
  about: "start the host in a process of its own and wait until it serves and until it leads",
  options: { times: "5", main: "host/main.ts" },
  async run(options) {
    await using lab = await SandboxLab.open();
    const starts: Start[] = [];
    for (let index = 0; index < numberOf(options, "times"); index++)
      starts.push(await startOnce(lab, resolve(options["main"] ?? "")));
    const median = (field: keyof Start): number =>
      percentile(
        starts.map((start) => start[field]),
        0.5,
      );
    return [
      { name: "starts", value: starts.length },
      { name: "servingMs", value: Math.round(median("servingMs")), unit: "ms until /livez replies" },
      { name: "leadingMs", value: Math.round(median("leadingMs")), unit: "ms until the controllers run" },
      { name: "cpuSeconds", value: median("cpuSeconds"), unit: "s of CPU until then" },
      { name: "idleMiB", value: median("idleMiB"), unit: `MiB resident ${idleMs / 1_000} s later` },
      { name: "load", value: loadavg()[0] ?? 0, unit: "load average of one minute" },
    ];
  },
};

async function startOnce(lab: SandboxLab, main: string): Promise<Start> {
  const startedAt = performance.now();
  const controllers = "--controllers=*,-node-route-controller,-node-ipam";
  await using host = lab.start({ main, flags: [controllers, "--configure-cloud-routes=false"] });
  const elapsed = async (isReached: (host: HostProcess) => Promise<boolean>): Promise<number> => {
    while (!(await isReached(host).catch(() => false))) await Bun.sleep(10);
    return performance.now() - startedAt;
  };
  const servingMs = await elapsed(async () => (await host.get("/livez", { keepalive: false })).status === 200);
  const leadingMs = await elapsed(async () => {
    const { leading, running } = await host.status();
    return leading && running;
  });
  const cpuSeconds = await cpuSecondsOf(host.pid);
  await Bun.sleep(idleMs);
  const idleMiB = await memoryOf(host.pid, "VmRSS");
  await host.stop();
  return { servingMs, leadingMs, cpuSeconds, idleMiB };
}
