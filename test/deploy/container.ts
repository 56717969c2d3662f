import { chmod, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { connect } from "node:tls";

import { eventually } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../host/async/clock.ts";
import type { HostStatus } from "../../host/run/status.ts";
import type { ImageConfig } from "./image.ts";

/** A folder or file of this machine and where the container sees it. */
export interface Mount {
  readonly source: string;
  readonly target: string;
  /** Default false. */
  readonly writable?: boolean;
}

export interface ContainerOptions {
  readonly name: string;
  /** A folder of its own, for what is made on the way. */
  readonly folder: string;
  readonly image: { readonly root: string; readonly config: ImageConfig };
  readonly args: readonly string[];
  readonly environment: ReadonlyMap<string, string>;
  readonly user: number;
  readonly group: number;
  /** All of them are read-only, as is the root. */
  readonly mounts: readonly Mount[];
  /** Where it serves, on loopback. */
  readonly port: number;
}

const patienceMs = 60_000;

const isRoot = process.platform === "linux" && process.getuid?.() === 0;
const hasTools = ["unshare", "setpriv"].every((tool) => Bun.which(tool) !== null);
/** Why no container can be made here, if none can: namespaces and mounts are for root on Linux. */
export const noContainers =
  isRoot && hasTools ? undefined : "a container is made by root on Linux, with unshare and setpriv of util-linux";

/** Capabilities that the launcher needs to become the user; the user has none. */
const launching = "-all,+setuid,+setgid,+sys_chroot";

/**
 * Runs an image as a container of a restricted Pod runs: in mount, process and host-name spaces of its own, on a
 * read-only root, as an ordinary user without capabilities who can never gain any. It needs root on Linux. What it does
 * not have is a network of its own and a seccomp profile.
 */
export class Container implements AsyncDisposable {
  readonly #options: ContainerOptions;
  readonly #process: Bun.Subprocess<"ignore", "pipe", "pipe">;
  readonly #reading: Promise<unknown>;
  #output = "";

  private constructor(options: ContainerOptions, process: Bun.Subprocess<"ignore", "pipe", "pipe">) {
    this.#options = options;
    this.#process = process;
    const collect = async (stream: ReadableStream<Uint8Array>): Promise<void> => {
      const decoder = new TextDecoder();
      for await (const chunk of stream) this.#output += decoder.decode(chunk, { stream: true });
    };
    this.#reading = Promise.all([collect(process.stdout), collect(process.stderr)]);
  }

  static async start(options: ContainerOptions): Promise<Container> {
    for (const { source, target } of options.mounts) await mountPoint(source, join(options.image.root, target));
    const script = join(options.folder, `${options.name}.sh`);
    await writeFile(script, launchScript(options));
    const spaces = ["--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child=SIGKILL", "--propagation=private"];
    const process = Bun.spawn(["unshare", ...spaces, "sh", "-eu", script], {
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    return new Container(options, process);
  }

  get name(): string {
    return this.#options.name;
  }

  /** Where it serves, on loopback. */
  get port(): number {
    return this.#options.port;
  }

  /** All that it has printed. */
  get output(): string {
    return this.#output;
  }

  /** The process that is number 1 in there, as this machine counts it. */
  async pid(): Promise<number> {
    const { pid } = this.#process;
    return this.eventually("the container's process is there", async () => {
      const children = await Bun.file(`/proc/${pid}/task/${pid}/children`).text();
      return Number.parseInt(children, 10) || undefined;
    });
  }

  async get(path: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> {
    const url = `https://127.0.0.1:${this.#options.port}${path}`;
    return fetch(url, { headers: { ...headers }, tls: { rejectUnauthorized: false } });
  }

  /** The SHA-256 fingerprint of the certificate that it serves. */
  async certificate(): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const socket = connect({ host: "127.0.0.1", port: this.#options.port, rejectUnauthorized: false }, () =>
      resolve(socket.getPeerCertificate().fingerprint256),
    );
    socket.on("error", reject);
    try {
      return await promise;
    } finally {
      socket.destroy();
    }
  }

  /** Waits for a condition; the error of a timeout has the output of the container. */
  async eventually<T>(awaited: string, ask: () => T | Promise<T>): Promise<Exclude<T, undefined | false>> {
    try {
      return await eventually(awaited, ask, patienceMs);
    } catch (error) {
      throw new Error(`${this.name}: ${String(error)}\n${this.#output}`, { cause: error });
    }
  }

  /** Waits for a probe's path to answer 200, as the kubelet asks it: without credentials. */
  async ready(path = "/readyz"): Promise<void> {
    await this.eventually(`${path} says ok`, async () => (await this.get(path)).ok);
  }

  async signal(name: NodeJS.Signals): Promise<void> {
    process.kill(await this.pid(), name);
  }

  /** The exit status once it has ended: of a signal it is 128 and the signal's number. */
  async ended(): Promise<number> {
    await this.#process.exited;
    await this.#reading;
    return this.#process.exitCode ?? 137;
  }

  /** As the kubelet stops a container: SIGTERM, and SIGKILL when it is still there after the grace period. */
  async stop(graceSeconds: number): Promise<{ readonly status: number; readonly killed: boolean }> {
    await this.signal("SIGTERM");
    let killed = false;
    const end = new AbortController();
    const kill = async (): Promise<void> => {
      await systemClock.sleep(graceSeconds * 1000, end.signal);
      if (end.signal.aborted) return;
      killed = true;
      await this.signal("SIGKILL");
    };
    const grace = kill();
    const status = await this.ended();
    end.abort();
    await grace;
    return { status, killed };
  }

  /** The launcher ends with the container's process; to end the launcher alone would leave that one behind. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) await this.signal("SIGKILL");
    await this.ended();
  }
}

/** `/statusz`, read as a user with permission. */
export async function statusOf(container: Container, token: string): Promise<HostStatus> {
  const response = await container.get("/statusz", { authorization: `Bearer ${token}` });
  if (!response.ok) throw new Error(`/statusz: ${response.status} ${await response.text()}`);
  const status: HostStatus = JSON.parse(await response.text());
  return status;
}

async function mountPoint(source: string, target: string): Promise<void> {
  const isFolder = await Bun.file(source)
    .exists()
    .then((isFile) => !isFile);
  await mkdir(isFolder ? target : dirname(target), { recursive: true });
  if (!isFolder && !(await Bun.file(target).exists())) await writeFile(target, "");
  await chmod(target, isFolder ? 0o755 : 0o644);
}

const quote = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`;

function launchScript({ name, image, args, environment, user, group, mounts }: ContainerOptions): string {
  const root = quote(image.root);
  const at = (path: string): string => quote(join(image.root, path));
  const devices = ["null", "zero", "random", "urandom"];
  const variables = [...image.config.environment, ...environment, ["HOSTNAME", name] as const];
  const launch = [
    "env -i",
    ...variables.map(([key, value]) => quote(`${key}=${value}`)),
    `"$(command -v setpriv)" --clear-groups --no-new-privs --bounding-set=${launching}`,
    `"$(command -v unshare)" --root=${root} --wd=${quote(image.config.workingDirectory)} --setgid=${group} --setuid=${user}`,
    ...[...image.config.entrypoint, ...args].map(quote),
  ];
  return [
    `hostname ${quote(name)}`,
    `mount --bind ${root} ${root}`,
    `mount -t proc proc ${at("proc")}`,
    ...devices.map((device) => `: >${at(`dev/${device}`)}; mount --bind /dev/${device} ${at(`dev/${device}`)}`),
    // As container engines give it.
    `mkdir -p ${at("dev/shm")}; mount -t tmpfs -o mode=1777,size=64m,noexec,nosuid,nodev shm ${at("dev/shm")}`,
    ...mounts.map(
      ({ source, target, writable = false }) =>
        `mount --bind ${quote(source)} ${at(target)}${writable ? "" : `; mount -o remount,bind,ro ${at(target)}`}`,
    ),
    `mount -o remount,bind,ro ${root}`,
    `exec ${launch.join(" ")}`,
    "",
  ].join("\n");
}
