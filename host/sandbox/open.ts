import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { type CloudSimulator, type Environment, kinds as knownKinds } from "cloud-controller-host/sdk";
import { type AdmissionWebhook, SandboxApiServer } from "cloud-controller-host/sdk/testing/api-server";

import type { Bundle } from "../bundle/bundle.ts";
import { type Loopback, serveLoopback } from "../console/loopback.ts";
import { Authorizer, hostUser } from "./authorizer.ts";
import { flagsOfBundle, loadObjects, simulate } from "./contents.ts";
import { claimDirectory, naming, temporaryDirectory } from "./directory.ts";
import { FailingWork } from "./failing-work.ts";
import { registerNode } from "./kubelet.ts";
import type { Declared, PreparedHost, PrepareHost, SandboxHost } from "./launcher.ts";
import { type HostPorts, reservePorts, startOn } from "./ports.ts";

export interface SandboxOptions {
  /** Folder for kubeconfig, cloud config and log. Default: a temporary folder, removed at the end. */
  readonly directory?: string;
  /** VMs to begin with; default 3 with a simulated cloud, none without. */
  readonly nodes?: number;
  /** Further flags of the host. */
  readonly flags?: readonly string[];
  readonly environment?: Environment;
  /** Begins with what a plan has read, in place of new VMs. */
  readonly bundle?: Bundle;
}

export interface Sandbox extends AsyncDisposable {
  readonly api: SandboxApiServer;
  /** Undefined when the cloud plugin has no `simulate`. */
  readonly cloud: CloudSimulator | undefined;
  readonly host: SandboxHost;
  /** Work of third-party controllers that fails. */
  readonly failingWork: Pick<FailingWork, "isEmpty" | "lines" | "byCause">;
  /** Reports a rejection or an exception that no code of this process has handled. */
  readonly unhandled: (error: unknown) => void;
  /** The address of the console, for a browser without credentials; undefined without a secure port. */
  readonly consoleUrl: string | undefined;
  /** The nodes registered at the start. */
  readonly nodeNames: readonly string[];
  readonly directory: string;
  readonly files: SandboxFiles;
  /** The file that the host reads: that of `files`, or another one that a flag names. */
  readonly cloudConfig: string;
}

/** Paths of the files in the sandbox's folder. */
export interface SandboxFiles {
  /** For the user, an administrator called `admin`. */
  readonly kubeconfig: string;
  readonly hostKubeconfig: string;
  readonly cloudConfig: string;
  readonly log: string;
  /** The `Authorization` header of `admin`, for `curl -H @FILE`. */
  readonly header: string;
}

/** Starts an API server, the cloud plugin's simulator with some VMs registered as nodes, and a host. */
export async function openSandbox(prepare: PrepareHost, options: SandboxOptions = {}): Promise<Sandbox> {
  await using opening = new AsyncDisposableStack();
  const directory = options.directory ?? opening.use(await temporaryDirectory()).path;
  opening.use(await claimDirectory(directory));
  const files: SandboxFiles = {
    kubeconfig: join(directory, "kubeconfig"),
    hostKubeconfig: join(directory, "host.kubeconfig"),
    cloudConfig: join(directory, "cloud-config.yaml"),
    log: join(directory, "host.log"),
    header: join(directory, "authorization"),
  };
  await using reserved = await reservePorts(defaultPorts);
  const { bundle } = options;
  const own = [...(bundle === undefined ? [] : flagsOfBundle(bundle)), ...(options.flags ?? [])];
  const prepareOn = (ports: HostPorts): Promise<PreparedHost> =>
    prepare(flagsOf(files, ports, own), options.environment ?? process.env);
  const prepared = await prepareOn(reserved.ports);
  const authorizer = new Authorizer(prepared.declared);
  const { kinds } = prepared.declared;
  const authorizes = authorizer.authorizes.bind(authorizer);
  const api = opening.use(await SandboxApiServer.start({ kinds, authorizes }));
  await writePrivate(files.kubeconfig, api.kubeconfig());
  await writePrivate(files.hostKubeconfig, api.kubeconfig(hostUser));
  await writePrivate(files.header, `Authorization: Bearer ${api.tokens.of("admin")}\n`);
  const cloud = await simulate(prepared.cloud, join(directory, "cloud"), bundle);
  if (cloud !== undefined) opening.use(cloud);
  await writePrivate(files.cloudConfig, `${cloud?.cloudConfig.trimEnd() ?? "{}"}\n`);
  if (bundle !== undefined) loadObjects(api, bundle);
  const nodeNames = bundle === undefined ? await registerVMs(api, cloud, options.nodes) : nodeNamesOf(api);

  await writePrivate(files.log, "");
  const log = Bun.file(files.log).writer();
  opening.defer(async () => void (await log.end()));
  const apply = (declared: Declared): void => {
    api.serve(declared.kinds);
    authorizer.declared = declared;
    api.webhooks = webhooksOf(declared);
  };
  const failingWork = new FailingWork();
  const writeLog = (line: string): void => void log.write(line);
  const start = (one: PreparedHost) => async (): Promise<SandboxHost> => {
    const started = await one.start({ writeLog, reloaded: apply, failingWork });
    api.webhooks = webhooksOf(one.declared);
    return started;
  };
  const host = await startOn(reserved, start(prepared), async (ports) => start(await prepareOn(ports)));
  opening.defer(async () => {
    host.stop();
    await host.finished;
  });
  const token = api.tokens.of("admin");
  const console = host.url === undefined ? undefined : opening.use(openConsole(host.url, token));
  const resources = opening.move();
  const { cloudConfig } = prepared;
  const disposal = { [Symbol.asyncDispose]: () => resources.disposeAsync() };
  const unhandled = (error: unknown): void => {
    host.unhandled(error);
    failingWork.unhandled(error, prepared.originOf);
  };
  const running = { host, failingWork, unhandled, consoleUrl: console?.url, nodeNames };
  return { api, cloud, cloudConfig, ...running, directory, files, ...disposal };
}

/** The host's certificate is one of its own, and the connection stays on this machine. */
function openConsole(hostUrl: string, token: string): Loopback {
  const serve = (port: number): Loopback =>
    serveLoopback(port, (path, headers, signal) => {
      headers.set("Authorization", `Bearer ${token}`);
      return fetch(`${hostUrl}${path}`, { headers, signal, tls: { rejectUnauthorized: false } });
    });
  try {
    return serve(defaultPorts.console);
  } catch {
    return serve(0);
  }
}

/** The registrations that a cluster has as webhook configurations. */
const webhooksOf = ({ webhooks, webhookPort }: Declared): readonly AdmissionWebhook[] =>
  webhooks.map(({ name, path, type, rules }) => ({
    name: `${name}.cloud-controller-host.sandbox`,
    url: `https://127.0.0.1:${webhookPort}${path}`,
    type,
    rules,
  }));

/** The flags that point the host at the sandbox; the user's come last and override them. */
function flagsOf(files: SandboxFiles, ports: HostPorts, flags: readonly string[]): readonly string[] {
  return [
    `--kubeconfig=${files.hostKubeconfig}`,
    `--cloud-config=${files.cloudConfig}`,
    "--enable-dynamic-reloading",
    "--configure-cloud-routes=false",
    "--cloud-node-lifecycle-controller-grace-period-seconds=5",
    "--node-monitor-period=2s",
    "--bind-address=127.0.0.1",
    `--secure-port=${ports.secure}`,
    `--webhook-secure-port=${ports.webhooks}`,
    ...flags,
  ];
}

const writePrivate = (path: string, text: string): Promise<void> =>
  naming(path, () => writeFile(path, text, { mode: 0o600 }));

async function registerVMs(
  api: SandboxApiServer,
  cloud: CloudSimulator | undefined,
  count: number | undefined,
): Promise<readonly string[]> {
  const names =
    cloud === undefined
      ? Array.from({ length: count ?? 0 }, (_, index) => `node-${index}`)
      : (await cloud.addInstances(count ?? 3)).map(({ nodeName }) => nodeName);
  for (const name of names) registerNode(api, name);
  return names;
}

const nodeNamesOf = (api: SandboxApiServer): readonly string[] =>
  api.list(knownKinds.Node).map(({ metadata }) => metadata?.name ?? "");

const defaultPorts: HostPorts & { readonly console: number } = { secure: 10_258, webhooks: 10_260, console: 10_261 };
