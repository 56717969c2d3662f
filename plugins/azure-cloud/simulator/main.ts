import { mkdir, readFile, rm, rmdir, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

import { messageOf } from "cloud-controller-host/sdk";

import { answerControl } from "./control.ts";
import { startSimulator } from "./simulator.ts";

/** `bun run simulator`: Azure Resource Manager on loopback, for programs in any language. */
const usage = `Usage: bun run simulator --directory=DIR [options]

Serves a simulated Azure Resource Manager on a loopback port until it is interrupted.

  --directory=DIR   where to write cloud-config.yaml, arm-ca.pem and federated-token; they are removed at the end
  --nodes=N         instances of the scale set vmss0 to begin with (default 0)
  --latency=20ms    added to every reply (default 0ms)
  --help            print this text
`;

interface Options {
  readonly directory: string;
  readonly nodes: number;
  readonly latencyMs: number;
}

/** The files that the simulator writes into its directory. */
const configFile = "cloud-config.yaml";
const written = [configFile, "arm-ca.pem", "federated-token"] as const;

const durations: Readonly<Record<string, number>> = { ms: 1, s: 1000 };

/** Parses the flags; reports all problems at once. */
function readOptions(argv: readonly string[]): Options | "help" {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      directory: { type: "string" },
      nodes: { type: "string", default: "0" },
      latency: { type: "string", default: "0ms" },
      help: { type: "boolean" },
    },
  });
  if (values.help === true) return "help";
  const duration = /^(\d+(?:\.\d+)?)(ms|s)$/u.exec(values.latency);
  const latencyMs = Number(duration?.[1]) * (durations[duration?.[2] ?? ""] ?? NaN);
  const nodes = /^\d+$/u.test(values.nodes) ? Number(values.nodes) : NaN;
  const problems = [
    ...(values.directory === undefined || values.directory === "" ? ["--directory must name a folder"] : []),
    ...(nodes <= 50_000 ? [] : [`--nodes=${values.nodes} must be a number up to 50000`]),
    ...(latencyMs <= 60_000 ? [] : [`--latency=${values.latency} must be a duration such as 20ms, up to 60s`]),
  ];
  if (problems.length > 0) throw new Error(problems.join("; "));
  return { directory: resolve(values.directory ?? ""), nodes, latencyMs };
}

const exists = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

/** Claims a folder for the simulator's files; at the end removes those that have not been changed. */
async function takeDirectory(directory: string): Promise<AsyncDisposable & { seal(): Promise<void> }> {
  for (const name of written)
    if (await exists(join(directory, name)))
      throw new Error(`${join(directory, name)} already exists; choose another --directory, or remove the file`);
  const created = await mkdir(directory, { recursive: true });
  const contents = new Map<string, string>();
  return {
    async seal() {
      for (const name of written) contents.set(name, await readFile(join(directory, name), "utf8"));
    },
    async [Symbol.asyncDispose]() {
      for (const [name, content] of contents) {
        const path = join(directory, name);
        const current = await readFile(path, "utf8").catch(() => undefined);
        if (current === content) await rm(path);
      }
      // Removes only an empty folder.
      if (created !== undefined) await rmdir(directory).catch(() => undefined);
    },
  };
}

async function serve({ directory, nodes, latencyMs }: Options): Promise<void> {
  const interrupted = new Promise<void>((done) => {
    for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, done);
  });
  await using stack = new AsyncDisposableStack();
  const folder = stack.use(await takeDirectory(directory));
  const simulator = stack.use(await startSimulator({ directory, latencyMs }));
  const config = join(directory, configFile);
  await writeFile(config, simulator.cloudConfig, { mode: 0o600 });
  await folder.seal();
  const control = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    maxRequestBodySize: 2 ** 20,
    fetch: async (request) => (await answerControl(simulator, request)) ?? new Response("not found\n", { status: 404 }),
  });
  stack.defer(() => control.stop(true));
  const instances = await simulator.addInstances(nodes);
  const lines = [
    ...simulator.describe(),
    `cloud config: ${config}`,
    `control: http://127.0.0.1:${control.port} (/__faults, /__requests, /__resources, /__instances)`,
    ...instances.map(({ nodeName, internalIP }) => `node ${nodeName} ${internalIP}`),
  ];
  process.stdout.write(`${lines.join("\n")}\nready\n`);
  await interrupted;
}

async function main(argv: readonly string[]): Promise<number> {
  try {
    const options = readOptions(argv);
    if (options === "help") process.stdout.write(usage);
    else await serve(options);
    return 0;
  } catch (error) {
    process.stderr.write(`simulator: ${messageOf(error)}\n`);
    return 1;
  }
}

process.exit(await main(process.argv.slice(2)));
