import { loadavg } from "node:os";

import { CodedError, kinds } from "cloud-controller-host/sdk";

import { SandboxLab } from "../host/sandbox-lab.ts";
import { joinNodes } from "../kit/azure.ts";
import { type Bench, percentile } from "./report.ts";
import { cpuSecondsOf, engineSettings, mainOf, memoryOf, numberOf } from "./world.ts";

const idleMs = 10_000;
const limitMs = 60_000;

interface Start {
  readonly servingMs: number;
  readonly leadingMs: number;
  readonly firstNodeMs: number;
  readonly cpuSeconds: number;
  readonly idleMiB: number;
}

/** Cold starts of the image's host with the Azure plugin and all controllers, and its memory at rest. */
export const startBench: Bench = {
  about: "start the host in a process of its own and wait until it serves and until it leads",
  options: { times: "5", main: "image" },
  async run(options) {
    await using stack = new AsyncDisposableStack();
    const main = await mainOf(stack, options["main"] ?? "");
    await using lab = await SandboxLab.open();
    const starts: Start[] = [];
    for (let index = 0; index < numberOf(options, "times"); index++) starts.push(await startOnce(lab, main));
    const median = (field: keyof Start): number =>
      percentile(
        starts.map((start) => start[field]),
        0.5,
      );
    return [
      { name: "starts", value: starts.length },
      { name: "servingMs", value: Math.round(median("servingMs")), unit: "ms until /livez replies" },
      { name: "leadingMs", value: Math.round(median("leadingMs")), unit: "ms until the controllers run" },
      {
        name: "firstNodeMs",
        value: Math.round(median("firstNodeMs")),
        unit: "ms until a node is initialized",
        aim: "under 1 s",
      },
      {
        name: "cpuSeconds",
        value: median("cpuSeconds"),
        unit: "s of CPU until the controllers run",
        aim: "under 0.8 s",
      },
      { name: "idleMiB", value: median("idleMiB"), unit: `MiB resident ${idleMs / 1_000} s later` },
      { name: "load", value: loadavg()[0] ?? 0, unit: "load average of one minute" },
    ];
  },
};

async function startOnce(lab: SandboxLab, main: string): Promise<Start> {
  const [name = ""] = await joinNodes(lab.admin, lab.azure, 1);
  const environment = await engineSettings();
  const startedAt = performance.now();
  const controllers = "--controllers=*,-node-route-controller,-node-ipam";
  await using host = lab.start({ main, environment, flags: [controllers, "--configure-cloud-routes=false"] });
  const elapsed = async (everyMs: number, isReached: () => boolean | Promise<boolean>): Promise<number> => {
    while (!(await (async () => isReached())().catch(() => false))) {
      if (performance.now() - startedAt > limitMs) throw new CodedError("NoStart", `no start in time:\n${host.stderr}`);
      await Bun.sleep(everyMs);
    }
    return performance.now() - startedAt;
  };
  // Cheap requests: only the time of the host is measured.
  await elapsed(5, () => connects(host.port));
  const servingMs = await elapsed(
    5,
    async () => (await host.get("/livez", { signal: AbortSignal.timeout(5_000) })).status === 200,
  );
  await elapsed(5, () => (lab.lease()?.holderIdentity ?? "") !== "");
  const leadingMs = await elapsed(50, async () => (await host.status()).running);
  const cpuSeconds = await cpuSecondsOf(host.pid);
  const isInitialized = (): boolean => lab.api.get(kinds.Node, { name })?.spec?.providerID !== undefined;
  const firstNodeMs = await elapsed(5, isInitialized);
  await Bun.sleep(idleMs);
  const idleMiB = await memoryOf(host.pid, "VmRSS");
  await Promise.race([host.stop(), Bun.sleep(limitMs)]);
  return { servingMs, leadingMs, firstNodeMs, cpuSeconds, idleMiB };
}

const connects = (port: number): Promise<boolean> =>
  Bun.connect({ hostname: "127.0.0.1", port, socket: { data: () => undefined } }).then((socket) => {
    socket.end();
    return true;
  });
