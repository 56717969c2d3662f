import { mkdir, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";

import { type CloudSimulator, CodedError, type Environment } from "cloud-controller-host/sdk";

import { readCommand } from "../command.ts";
import type { PluginSet } from "../generation/load.ts";
import { type RunningHost, startHost } from "../host.ts";
import { SandboxApiServer } from "./api-server/server.ts";
import { seedNodes } from "./seed.ts";

export interface SandboxOptions {
  /** Where the kubeconfig, the cloud config and the log are put. Made anew. */
  readonly directory: string;
  readonly nodes: number;
  /** Flags for the host beside those that point it at the sandbox. */
  readonly flags: readonly string[];
  readonly environment: Environment;
  readonly stderr: (text: string) => void;
}

export interface Sandbox extends AsyncDisposable {
  readonly api: SandboxApiServer;
  readonly cloud: CloudSimulator;
  readonly host: RunningHost;
  readonly nodeNames: readonly string[];
  readonly kubeconfig: string;
  readonly cloudConfig: string;
  readonly log: string;
}

/** An API server, a simulated cloud with its machines registered as nodes, and a host between them, in one process. */
export async function openSandbox(options: SandboxOptions): Promise<Sandbox> {
  const { directory } = options;
  await using opening = new AsyncDisposableStack();
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  const [kubeconfig, cloudConfig, log] = [
    join(directory, "kubeconfig"),
    join(directory, "cloud-config.yaml"),
    join(directory, "host.log"),
  ];
  const api = opening.use(await SandboxApiServer.start());
  await writeFile(kubeconfig, api.kubeconfig(), { mode: 0o600 });
  const writer = Bun.file(log).writer();
  opening.defer(async () => void (await writer.end()));

  const argv = [
    `--kubeconfig=${kubeconfig}`,
    `--cloud-config=${cloudConfig}`,
    "--enable-dynamic-reloading",
    "--configure-cloud-routes=false",
    "--bind-address=127.0.0.1",
    `--secure-port=${await freePort(10258)}`,
    "--authorization-always-allow-paths=/*",
    ...options.flags,
  ];
  const input = await readCommand(argv, { ...options, stdout: options.stderr, width: 100 });
  if ("status" in input) throw new CodedError("SandboxFlags", "the sandbox's host refuses its flags");
  const cloud = opening.use(await simulate(input.plugins, input.options.cloudProvider, directory));
  await writeFile(cloudConfig, `${cloud.cloudConfig.trimEnd()}\n`, { mode: 0o600 });
  const machines = await cloud.addInstances(options.nodes);
  seedNodes(api, machines);

  const host = await startHost({ ...input, writeLog: (line) => void writer.write(line) });
  opening.defer(async () => {
    host.stop();
    await host.finished;
  });
  const resources = opening.move();
  return {
    api,
    cloud,
    host,
    nodeNames: machines.map(({ nodeName }) => nodeName),
    kubeconfig,
    cloudConfig,
    log,
    [Symbol.asyncDispose]: () => resources.disposeAsync(),
  };
}

async function simulate(plugins: PluginSet, name: string, directory: string): Promise<CloudSimulator> {
  const plugin = plugins.clouds.find((cloud) => cloud.name === name);
  if (plugin?.simulate !== undefined) return plugin.simulate({ directory });
  throw new CodedError("NoSimulator", `--cloud-provider=${name}: this cloud plugin brings no simulator to try it with`);
}

/** The port that people know, or any free one where another process has it. */
async function freePort(wanted: number): Promise<number> {
  const tryPort = (port: number): Promise<number | undefined> =>
    new Promise((resolve) => {
      const probe = createServer();
      probe.once("error", () => resolve(undefined));
      probe.listen(port, "127.0.0.1", () => {
        const address = probe.address();
        const bound = typeof address === "object" && address !== null ? address.port : port;
        probe.close(() => resolve(bound));
      });
    });
  return (await tryPort(wanted)) ?? (await tryPort(0)) ?? wanted;
}
