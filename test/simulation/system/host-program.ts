import { systemClock } from "../../../host/async/clock.ts";
import { OutstandingWork } from "../../../host/async/outstanding-work.ts";
import { readCommand } from "../../../host/cli/command.ts";
import type { PluginLoader } from "../../../host/generation/plugins/load.ts";
import { PrivateCopies } from "../../../host/generation/plugins/private-copies.ts";
import { type RunningHost, startHost } from "../../../host/host.ts";
import type { HostInput } from "../../../host/run/process-parts.ts";
import type { HostStatus } from "../../../host/run/status.ts";
import type { ProcessTime } from "../timeline.ts";
import { type Deployment, deploymentOptions, type Second } from "./deployments.ts";
import { Generations } from "./generations.ts";
import type { LeaseTimings } from "./pace.ts";
import type { VirtualRuntime } from "./runtime/virtual-runtime.ts";

export const configSecret = { namespace: "kube-system", name: "azure-cloud-provider" } as const;
export const configKey = "cloud-config";

/** The defaults of production, with the controllers that are off by default. */
const flags = [
  "--enable-dynamic-reloading",
  `--cloud-config-secret-name=${configSecret.name}`,
  `--cloud-config-secret-namespace=${configSecret.namespace}`,
  `--cloud-config-key=${configKey}`,
  "--secure-port=0",
  "--configure-cloud-routes=true",
  "--allocate-node-cidrs=true",
  "--cluster-cidr=10.244.0.0/16",
  // More nodes leave in a history than operators would let go in an hour.
  "--cloud-node-lifecycle-controller-max-missing-nodes=100",
];

/** The host as `main.ts` would start it, with its plugins imported once: reading a command line is real work. */
export async function readProgram(): Promise<HostInput> {
  const problems: string[] = [];
  const report = (text: string): void => void problems.push(text);
  const input = await readCommand(flags, { environment: {}, stdout: report, stderr: report, width: 100 });
  if ("status" in input) throw new Error(problems.join("\n"));
  return input;
}

/** Without its end, its date, wall clock and process id. */
const shortLine = (line: string): string => line.trimEnd().replace(/^([A-Z])\d{4} \S+ +\d+ /u, "$1 ");

/** How much faster or slower than time clocks run: leader election takes more. */
const maxDrift = 0.02;

export interface HostOptions {
  readonly runtime: VirtualRuntime;
  readonly program: HostInput;
  readonly lease: LeaseTimings;
  readonly index: number;
  readonly deployment: Deployment;
  /** Undefined: there is one deployment. */
  readonly second: Second | undefined;
  readonly kubeconfig: string;
  readonly podCIDR: string;
  readonly log: (line: string) => void;
  /** Called once, when the process has ended or was killed. */
  readonly ended: () => void;
}

interface Countdown {
  left: number;
  readonly work: () => void;
}

/** Counts one, and does the work with the last. */
function isOver(countdown: Countdown): boolean {
  countdown.left -= 1;
  if (countdown.left === 0) countdown.work();
  return countdown.left <= 0;
}

/** A real host in a process of the simulated world. */
export class SimulatedHost {
  readonly index: number;
  readonly deployment: Deployment;
  readonly process: ProcessTime;
  readonly generations: Generations;
  running: RunningHost | undefined;
  /** Undefined while it runs. */
  exitStatus: number | undefined;
  readonly #runtime: VirtualRuntime;
  readonly #ended: () => void;
  /** Kept: a status is costly, and every request asks for it. */
  #identity = "";
  #afterWrites: Countdown | undefined;
  #atWrites: Countdown | undefined;

  constructor({ runtime, program, lease, index, deployment, second, kubeconfig, podCIDR, log, ended }: HostOptions) {
    const { options } = program;
    this.index = index;
    this.deployment = deployment;
    this.#ended = ended;
    this.#runtime = runtime;
    const skewMs = Math.floor((runtime.random() - 0.5) * 600_000);
    this.process = runtime.process(skewMs, 1 + (runtime.random() - 0.5) * 2 * maxDrift);
    this.generations = new Generations(runtime);
    const plugins = this.generations.plugins(program.plugins);
    const loader: PluginLoader = { hash: async () => plugins.hash, load: async () => ({ ok: true, plugins }) };
    const input: HostInput = {
      ...program,
      plugins,
      options: {
        ...(second === undefined ? options : deploymentOptions(options, second, deployment)),
        kubeconfig,
        clusterCidr: podCIDR,
        leaderElectLeaseDuration: lease.durationMs,
        leaderElectRenewDeadline: lease.renewDeadlineMs,
        leaderElectRetryPeriod: lease.retryPeriodMs,
      },
      loader,
      copies: new PrivateCopies(systemClock),
      outstanding: new OutstandingWork(systemClock),
      writeLog: (line) => log(shortLine(line)),
    };
    runtime.as(this.process, () => void this.#run(input, log));
  }

  async #run(input: HostInput, log: (line: string) => void): Promise<void> {
    try {
      this.running = await startHost(input);
      this.exitStatus = await this.running.finished;
    } catch (error) {
      this.exitStatus = 1;
      log(`the host ended: ${String(error)}`);
    }
    if (this.process.state !== "dead") this.#ended();
  }

  get isAlive(): boolean {
    return this.process.state !== "dead" && this.exitStatus === undefined;
  }

  /** The identity in the Lease. */
  get identity(): string {
    this.#identity ||= this.running?.status.identity ?? "";
    return this.#identity;
  }

  /** What `/statusz` shows; undefined while it does not serve. */
  get status(): HostStatus | undefined {
    if (!this.isAlive || this.process.state !== "runs") return undefined;
    return this.#runtime.as(this.process, () => this.running?.status);
  }

  kill(): void {
    if (this.isAlive) this.#ended();
    this.process.kill();
  }

  /** Does something right after so many more of its writes have taken effect, before it hears of the last. */
  afterWrites(writes: number, work: () => void): void {
    this.#afterWrites = { left: writes, work };
  }

  /** Does something as so many more of its writes are on their way to Azure. */
  atWrites(writes: number, work: () => void): void {
    this.#atWrites = { left: writes, work };
  }

  /** A write of its has taken effect. */
  wrote(): void {
    if (this.#afterWrites !== undefined && isOver(this.#afterWrites)) this.#afterWrites = undefined;
  }

  /** A write of its is on its way to Azure. */
  isWriting(): void {
    if (this.#atWrites !== undefined && isOver(this.#atWrites)) this.#atWrites = undefined;
  }

  stop(): void {
    this.process.deliver(() => this.running?.stop());
  }
}
