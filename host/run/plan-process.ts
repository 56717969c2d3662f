import { setPriority } from "node:os";
import { join } from "node:path";

import { CodedError, type Environment, isObject } from "cloud-controller-host/sdk";

import { systemClock } from "../async/clock.ts";
import { within } from "../async/timeout.ts";
import type { MakePlan } from "../console/plans.ts";

const program = join(import.meta.dir, "..", "cli", "shown-plan.ts");
/** As the image starts a host: nothing is installed, and no file of the working directory is read. */
const runtimeFlags = ["--no-install", "--no-env-file", "--config=/dev/null"];
const planSeconds = 120;
const limitMs = 150_000;
/** Time to read the last output. A process that a plugin started may hold the pipes open after the plan's has ended. */
const pipesMs = 2_000;
/** Output limit, higher than what the program prints. */
const maxBytes = 2 * 1024 * 1024;
const megabyte = 1024 * 1024;
/** Planning takes about as much as the host itself, and at least so much. */
const minRoom = 160 * megabyte;
/** Nice value: all work of this process goes first. */
const priority = 15;

/** Flags and environment of the plan's process. */
export interface PlanCommand {
  /** The flags of the host. */
  readonly argv: readonly string[];
  readonly environment: Environment;
  /** Memory in bytes that may still be used. */
  readonly memoryLeft?: () => Promise<number>;
}

/**
 * Makes plans in a process of their own: a plan never blocks the event loop of this one, and its memory is freed at its
 * end. It does not start with too little memory: exceeding the container's limit would kill the host as well.
 */
export const planProcess =
  ({ argv, environment, memoryLeft = memoryLeftHere }: PlanCommand): MakePlan =>
  async (signal) => {
    const [left, needed] = [await memoryLeft(), Math.max(minRoom, process.memoryUsage.rss())];
    if (left < needed)
      throw new CodedError(
        "PlanFailed",
        `a plan needs about ${toMegabytes(needed)} MiB of memory, and ${toMegabytes(left)} MiB are left: raise the ` +
          "memory limit, or run the plan command elsewhere",
      );
    signal.throwIfAborted();
    const flags = [...argv, `--plan-timeout=${planSeconds}`, "--audit-log-path=", "--v=0"];
    const child = Bun.spawn([process.execPath, ...runtimeFlags, program, ...flags], {
      env: { ...environment },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
      signal,
      timeout: limitMs,
      killSignal: "SIGKILL",
      maxBuffer: maxBytes,
    });
    setPriority(child.pid, priority);
    const output = Promise.all([child.stdout.text(), child.stderr.text()]);
    const status = await child.exited;
    const read = await within(systemClock, pipesMs, output);
    const [printed, complaint] = read.done ? read.value : ["", "a process that a plugin started has not ended"];
    const plan = lastLine(printed);
    if (status === 0 && isDocument(plan)) return plan;
    const how =
      child.signalCode === null ? `status ${status}` : `${child.signalCode}, after at most ${limitMs / 1000} s`;
    throw new CodedError("PlanFailed", complaint.trim().slice(-2_000) || `planning ended with ${how}`);
  };

const lastLine = (text: string): string => text.slice(text.trimEnd().lastIndexOf("\n") + 1).trim();

/** True for a JSON object. It is embedded in an answer unchanged. */
function isDocument(text: string): boolean {
  try {
    return isObject(JSON.parse(text));
  } catch {
    return false;
  }
}

const toMegabytes = (bytes: number): number => Math.round(bytes / megabyte);

/** Memory left below the container's limit, counting droppable caches as free, or on the machine if that is less. */
async function memoryLeftHere(): Promise<number> {
  const text = (name: string): Promise<string> =>
    Bun.file(`/sys/fs/cgroup/${name}`)
      .text()
      .catch(() => "");
  const [limit, used, details] = await Promise.all(["memory.max", "memory.current", "memory.stat"].map(text));
  const dropped = Number(/^inactive_file (\d+)$/mu.exec(details ?? "")?.[1] ?? 0);
  const left = Number.parseInt(limit ?? "", 10) - (Number.parseInt(used ?? "", 10) - dropped);
  return Math.min(Number.isNaN(left) ? Number.POSITIVE_INFINITY : left, process.availableMemory());
}
