import { parseArgs } from "node:util";

import { CodedError, messageOf } from "cloud-controller-host/sdk";

import { shardName } from "../config/validate/shard.ts";
import { didYouMean } from "../config/values/suggestion.ts";
import { Leader } from "../console/leader.ts";
import { type Forward, type Loopback, serveLoopback } from "../console/loopback.ts";
import { openBrowser } from "../console/open-browser.ts";
import { loadApiServer } from "../kube/connection/api-server.ts";
import { createClient } from "../kube/connection/client.ts";
import { consoleHint } from "../kube/connection/port-forward.ts";
import { createTransport } from "../kube/connection/transport.ts";
import { onSignals } from "../process/signals.ts";
import type { Surroundings } from "./command.ts";

const ownPods = "app.kubernetes.io/name=cloud-controller-host";
const flags = {
  kubeconfig: { type: "string", default: "" },
  namespace: { type: "string", default: "kube-system" },
  "leader-elect-resource-name": { type: "string", default: "cloud-controller-manager" },
  "leader-elect-resource-namespace": { type: "string", default: "" },
  selector: { type: "string" },
  shard: { type: "string", default: "" },
  "secure-port": { type: "string", default: "10258" },
  port: { type: "string", default: "10261" },
  browser: { type: "boolean", default: true },
} as const;

export const consoleUsage = `Usage: cloud-controller-host console [--kubeconfig=FILE] [options]

Opens the console of the host that leads: finds the Pod that holds the Lease, forwards a port to it through the API
server, and serves its page on loopback with your own credentials added. It follows a hand-over. Read-only; while it
runs, every user of this machine can read the console. You need: get on the Lease, list on Pods, get and create on
pods/portforward, and get on the path /ui/*.

  --kubeconfig=FILE                        default: as kubectl
  --namespace=NAME                         of the Pods and their Lease (default ${flags.namespace.default})
  --selector=LABELS                        of the Pods (default ${ownPods})
  --leader-elect-resource-name=NAME        the Lease (default ${flags["leader-elect-resource-name"].default})
  --leader-elect-resource-namespace=NAME   of the Lease, where it is not that of the Pods
  --shard=NAME                             a shard: its Lease, and in the default selector its Pods, end in -NAME
  --secure-port=PORT                       of the host (default ${flags["secure-port"].default})
  --port=PORT                              on loopback; 0 takes a free one (default ${flags.port.default})
  --no-browser                             print the address and open no browser
`;

/** `console`: serves until a signal, or until `signal` aborts. Resolves to the exit status. Never rejects. */
export async function runConsole(
  argv: readonly string[],
  { stdout, stderr }: Surroundings,
  signal?: AbortSignal,
): Promise<number> {
  try {
    const options = read(argv);
    const api = loadApiServer({ kubeconfig: options.kubeconfig });
    const transport = createTransport(api, {
      userAgent: "cloud-controller-host/console",
      qps: -1,
      permissionHint: consoleHint,
    });
    await using running = new AsyncDisposableStack();
    running.defer(() => transport.close());
    const leader = running.use(new Leader({ ...options, api, client: createClient(transport), port: options.podPort }));
    const pod = await leader.find();
    await checkConsole(leader.forward, pod);
    const loopback = running.use(serveOn(options.port, leader.forward));
    const isOpened = options.browser && openBrowser(loopback.url);
    stdout(`Console of ${options.namespace}/${pod}: ${loopback.url}${isOpened ? " (opened)" : ""}\nCtrl-C stops.\n`);
    await stopped(signal);
    return 0;
  } catch (error) {
    stderr(`Error: cannot open the console: ${messageOf(error)}\n`);
    return 1;
  }
}

function serveOn(port: number, forward: Forward): Loopback {
  try {
    return serveLoopback(port, forward);
  } catch (cause) {
    throw new CodedError("ListenFailed", `--port=${port}: choose another, or 0 for any free one`, { cause });
  }
}

/** Rejects with what is missing: a page could not show it. */
export async function checkConsole(forward: Forward, pod: string): Promise<void> {
  const reply = await forward("/ui/api/overview", new Headers(), AbortSignal.timeout(15_000));
  await reply.body?.cancel();
  const reasons: Readonly<Record<number, string>> = {
    401: "does not accept these credentials: does its kubeconfig for authentication work?",
    403: "refuses these credentials: they need get on the path /ui/*, see Roles in deploy/OPERATE.md",
    404: "has no console: it is an older version, or its feature gate ComponentStatusz is off",
  };
  if (!reply.ok)
    throw new CodedError("LeaderNotFound", `Pod ${pod} ${reasons[reply.status] ?? `answered ${reply.status}`}`);
}

async function stopped(signal: AbortSignal | undefined): Promise<void> {
  const over = Promise.withResolvers<void>();
  const end = (): void => over.resolve();
  // A terminal sends SIGHUP when it is closed.
  using _ = onSignals({ stop: end, reload: end });
  signal?.addEventListener("abort", end, { once: true });
  if (signal?.aborted === true) over.resolve();
  await over.promise;
}

function read(argv: readonly string[]) {
  const { values, positionals, tokens } = parseArgs({
    args: [...argv],
    options: flags,
    strict: false,
    allowNegative: true,
    allowPositionals: true,
    tokens: true,
  });
  const unknown = tokens.find((token) => token.kind === "option" && !Object.hasOwn(flags, token.name));
  if (unknown?.kind === "option")
    throw invalid(`unknown option ${unknown.rawName}${didYouMean(unknown.name, Object.keys(flags), "--")}`);
  if (positionals.length > 0) throw invalid(`unexpected argument ${positionals[0]}`);
  const text = (name: Exclude<keyof typeof flags, "browser">): string => {
    const value = values[name];
    const flag: { readonly type: string; readonly default?: string } = flags[name];
    if (typeof value !== "string" || (value === "" && flag.default !== "")) throw invalid(`--${name}: needs a value`);
    return value;
  };
  const port = (name: "port" | "secure-port"): number => {
    const number = Number(text(name));
    if (!(Number.isInteger(number) && number >= 0 && number <= 65_535))
      throw invalid(`--${name}=${text(name)}: must be a port, 0 to 65535`);
    return number;
  };
  const shard = text("shard");
  const namespace = text("namespace");
  return {
    kubeconfig: text("kubeconfig"),
    namespace,
    lease: {
      namespace: text("leader-elect-resource-namespace") || namespace,
      name: shardName({ shard }, text("leader-elect-resource-name")),
    },
    selector: values.selector === undefined ? shardName({ shard }, ownPods) : text("selector"),
    podPort: port("secure-port"),
    port: port("port"),
    browser: values.browser !== false,
  };
}

const invalid = (message: string): CodedError => new CodedError("InvalidFlags", message);
