import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { kinds, type KubeClient, type Lease } from "cloud-controller-host/sdk";

import { readCommand } from "../../host/cli/command.ts";
import { type RunningHost, startHost } from "../../host/host.ts";
import { createClient } from "../../host/kube/connection/client.ts";
import { createTransport } from "../../host/kube/connection/transport.ts";
import type { HostInput } from "../../host/run/process-parts.ts";
import { type ApiServerOptions, SandboxApiServer } from "../../sdk/testing/api-server/index.ts";
import { simulateAzure, type SimulatedAzure } from "../kit/azure.ts";
import { HostProcess, type HostProcessOptions } from "../kit/host-process.ts";
import { hostUser } from "../kit/host-roles.ts";

/** A sandbox API server and a simulated Azure for one test, and hosts on them. All of it ends with the lab. */
export class SandboxLab implements AsyncDisposable {
  readonly api: SandboxApiServer;
  readonly azure: SimulatedAzure;
  readonly admin: KubeClient;
  /** The path of a kubeconfig for the host's user. */
  readonly kubeconfig: string;
  readonly #stack: AsyncDisposableStack;
  #changes = 0;

  static async open(options: ApiServerOptions = {}): Promise<SandboxLab> {
    await using opening = new AsyncDisposableStack();
    const api = opening.use(await SandboxApiServer.start(options));
    const azure = opening.use(await simulateAzure());
    const kubeconfig = join(azure.folder, "kubeconfig");
    await writeFile(kubeconfig, api.kubeconfig(hostUser));
    const credentials = { tls: { ca: api.ca }, headers: { Authorization: `Bearer ${api.tokens.of("admin")}` } };
    const server = { url: api.url, proxy: undefined, credentials: async () => credentials };
    const transport = createTransport(server, { userAgent: "test", qps: -1 });
    opening.defer(() => transport.close());
    return new SandboxLab({ api, azure, kubeconfig, admin: createClient(transport), stack: opening.move() });
  }

  private constructor(
    parts: Pick<SandboxLab, "api" | "azure" | "kubeconfig" | "admin"> & { stack: AsyncDisposableStack },
  ) {
    this.api = parts.api;
    this.azure = parts.azure;
    this.admin = parts.admin;
    this.kubeconfig = parts.kubeconfig;
    this.#stack = parts.stack;
  }

  /** The flags that every host here needs; by default the cloud-node controller alone runs. */
  flags(more: readonly string[] = []): readonly string[] {
    const given = (name: string): boolean => more.some((flag) => flag.startsWith(`--${name}=`));
    return [
      `--kubeconfig=${this.kubeconfig}`,
      ...(given("cloud-config") ? [] : [`--cloud-config=${this.azure.config}`]),
      ...(given("controllers") ? [] : ["--controllers=cloud-node-controller"]),
      ...more,
    ];
  }

  /** Writes a plugin of one file, and gives the flag by which a host finds it. */
  async plugin(name: string, source: string): Promise<string> {
    const folder = join(this.azure.folder, "plugins", name);
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "plugin.ts"), source);
    return `--plugin-dir=${join(this.azure.folder, "plugins")}`;
  }

  /** Changes the content of the cloud config, and nothing that it means. */
  async changeConfig(): Promise<void> {
    await appendFile(this.azure.config, `# change ${++this.#changes}\n`);
  }

  /** What the Lease says now; undefined before there is one. */
  lease(name = "cloud-controller-manager"): Lease["spec"] {
    return this.api.get(kinds.Lease, { namespace: "kube-system", name })?.spec;
  }

  /** A host in a process of its own. */
  start(options: Partial<HostProcessOptions> = {}): HostProcess {
    return this.#stack.use(new HostProcess({ ...options, flags: this.flags(options.flags) }));
  }

  /** A host in this process, and the lines of its log. It serves on a free port. */
  async host(
    flags: readonly string[] = [],
    change: (input: HostInput) => HostInput = (input) => input,
  ): Promise<{ readonly host: RunningHost; readonly log: readonly string[] }> {
    const complaints: string[] = [];
    const input = await readCommand(this.flags(["--bind-address=127.0.0.1", "--secure-port=0", ...flags]), {
      environment: {},
      stdout: () => undefined,
      stderr: (text) => complaints.push(text),
      width: 100,
    });
    if ("status" in input) throw new Error(complaints.join(""));
    const log: string[] = [];
    const host = await startHost({ ...change(input), writeLog: (line) => log.push(line) });
    this.#stack.defer(async () => {
      host.stop();
      await host.finished;
    });
    return { host, log };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}
