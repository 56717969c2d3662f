import { readFile } from "node:fs/promises";
import { loadavg } from "node:os";
import { join, resolve } from "node:path";

import { CodedError } from "cloud-controller-host/sdk";

import { assembleImage } from "../deploy/image.ts";
import { findAssets } from "../envtest/assets.ts";
import { type Cluster, openCluster } from "../envtest/cluster.ts";
import { startControlPlane } from "../envtest/control-plane.ts";

/** The longest that a phase of a bench may take. */
export const phaseMs = 180_000;

/** Resolves when it holds; rejects when that takes longer than a phase may. `state` is added to the error. */
export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  { everyMs = 25, state = () => "" }: { readonly everyMs?: number; readonly state?: () => string } = {},
): Promise<void> {
  const deadline = performance.now() + phaseMs;
  while (!(await holds())) {
    if (performance.now() > deadline)
      throw new CodedError("NotReached", `not within ${phaseMs / 1000} s: ${what}\n${state()}`.trim());
    await Bun.sleep(everyMs);
  }
}

/** A real control plane for one bench; audited only where the bench counts requests. */
export async function realCluster(
  stack: AsyncDisposableStack,
  options: { readonly audited: boolean },
): Promise<Cluster> {
  const assets = await findAssets(process.env);
  if (!assets.found) throw new CodedError("NoControlPlane", `this bench needs a real API server: ${assets.reason}`);
  const controlPlane = stack.use(await startControlPlane(assets.directory, { ...options, collectsRarely: false }));
  return openCluster(async () => controlPlane.handover);
}

/** A field of `/proc/<pid>/status` in MiB: `VmRSS` now, `VmHWM` at most. */
export async function memoryOf(pid: number, field: "VmRSS" | "VmHWM"): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Math.round(Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)?.[1] ?? 0) / 1024);
}

/** What a process has used of the processors so far, in seconds: a figure that a busy machine does not change much. */
export async function cpuSecondsOf(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const [user = 0, system = 0] = stat.slice(stat.lastIndexOf(")")).split(" ").slice(12, 14).map(Number);
  return (user + system) / ticksPerSecond;
}

/** Settings of Bun's collector, compiler and allocator in the image: memory and processor time are those of a container. */
export async function engineSettings(): Promise<Readonly<Record<string, string>>> {
  const containerfile = await readFile(join(import.meta.dir, "..", "..", "deploy", "Containerfile"), "utf8");
  const settings = [...containerfile.matchAll(/^\s+((?:BUN_(?:GC|JSC)|MIMALLOC)_\w+)=(\S+)/gm)];
  return Object.fromEntries(settings.map(([, name = "", value = ""]) => [name, value]));
}

/** The `main.ts` that a bench starts: that of a checkout, or with `image` that of the image, assembled for the bench. */
export async function mainOf(stack: AsyncDisposableStack, given: string): Promise<string> {
  if (given !== "image") return resolve(given);
  return join(stack.use(await assembleImage()).root, "app", "host", "main.ts");
}

/** The load average of the machine over the last minute. */
export const loadAverage = (): number => loadavg()[0] ?? 0;

/** `getconf CLK_TCK` on Linux. */
const ticksPerSecond = 100;

/** A number of that option, or a complaint that names it. A time may have a unit, and is in milliseconds. */
export function numberOf(options: Readonly<Record<string, string>>, name: string): number {
  const text = options[name] ?? "";
  const [, digits, unit] = /^(\d+(?:\.\d+)?)(ms|s)?$/.exec(text) ?? [];
  if (digits === undefined)
    throw new CodedError("BadOption", `--${name}=${text}: a number, or a time such as 20ms or 2s, is wanted`);
  return Number(digits) * (unit === "s" ? 1000 : 1);
}
