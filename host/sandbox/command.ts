import { parseArgs } from "node:util";

import { type Clock, messageOf, taints } from "cloud-controller-host/sdk";

import { systemClock } from "../async/clock.ts";
import type { Surroundings } from "../command.ts";
import { onSignals } from "../process/signals.ts";
import { tellChanges } from "./live.ts";
import { openSandbox, type Sandbox } from "./open.ts";
import { promisesOf, type SandboxPromise } from "./promises.ts";

const usage = `Usage: bun run sandbox [--check] [--nodes=3] [--directory=.sandbox] [-- flags of the host]

An API server, a simulated cloud and the host between them, in one process, with nothing mocked.

  --check             wait for each promise, print how long it took, exit 0 (or 1 where one is not kept in 30 s)
  --nodes=N           machines to begin with (default 3)
  --directory=PATH    where kubeconfig, cloud-config.yaml and host.log are put (default .sandbox)
`;

const deadlineMs = 30_000;

interface SandboxArguments {
  readonly check: boolean;
  readonly help: boolean;
  readonly nodes: number;
  readonly directory: string;
  readonly flags: readonly string[];
}

/** `bun run sandbox`: opens the sandbox, tells what happens in it, and closes it on Ctrl-C or after the check. */
export async function runSandbox(argv: readonly string[], surroundings: Surroundings): Promise<number> {
  const { stdout, stderr, environment } = surroundings;
  const say = (line: string): void => stdout(`${line}\n`);
  try {
    const { check, help, ...options } = readArguments(argv);
    if (help) return (stdout(usage), 0);
    await using sandbox = await openSandbox({ ...options, environment, stderr });
    describe(sandbox, say);
    const kept = await keepPromises(check ? promisesOf(sandbox) : promisesOf(sandbox).slice(0, 2), say, systemClock);
    if (check) return kept ? 0 : (stderr(`Not every promise was kept; the host's log is ${sandbox.log}\n`), 1);
    await untilStopped(sandbox, say);
    return 0;
  } catch (error) {
    stderr(`Error: ${messageOf(error)}\n`);
    return 1;
  }
}

function readArguments(argv: readonly string[]): SandboxArguments {
  const { values, positionals } = parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: {
      check: { type: "boolean", default: false },
      help: { type: "boolean", short: "h", default: false },
      nodes: { type: "string", default: "3" },
      directory: { type: "string", default: ".sandbox" },
    },
  });
  const nodes = Number(values.nodes);
  if (!Number.isInteger(nodes) || nodes < 1 || nodes > 5000)
    throw new TypeError(`--nodes=${values.nodes}: a whole number from 1 to 5000 is wanted`);
  return { check: values.check, help: values.help, nodes, directory: values.directory, flags: positionals };
}

function describe(sandbox: Sandbox, say: (line: string) => void): void {
  say("\ncloud-controller-host sandbox\n");
  say(`  API server  ${sandbox.api.url}   kubeconfig in ${sandbox.kubeconfig}`);
  for (const line of sandbox.cloud.describe()) say(`  Cloud       ${line}`);
  say(`  Host        ${sandbox.host.url ?? "serves nothing"}   log in ${sandbox.log}\n`);
}

/** Waits for one promise after the other and prints a line for each. */
async function keepPromises(
  promises: readonly SandboxPromise[],
  say: (line: string) => void,
  clock: Clock,
): Promise<boolean> {
  let all = true;
  for (const promise of promises) {
    const started = clock.monotonic();
    await promise.begin?.();
    let how = promise.kept();
    while (how === undefined && clock.monotonic() - started < deadlineMs) {
      await clock.sleep(5);
      how = promise.kept();
    }
    const took = `${Math.round(clock.monotonic() - started)} ms`.padStart(9);
    say(how === undefined ? `  ✗ ${took}  ${promise.name}: not kept in 30 s` : `  ✓ ${took}  ${promise.name}: ${how}`);
    all &&= how !== undefined;
  }
  return all;
}

async function untilStopped(sandbox: Sandbox, say: (line: string) => void): Promise<void> {
  const { kubeconfig, cloudConfig, host } = sandbox;
  say("\nTry next, in another terminal:\n");
  say(`  kubectl --kubeconfig ${kubeconfig} get nodes -o wide`);
  say(`  kubectl --kubeconfig ${kubeconfig} taint nodes --all ${taints.uninitialized}=true:NoSchedule`);
  say(`  kubectl --kubeconfig ${kubeconfig} get events -A -w`);
  say(`  edit ${cloudConfig}            (a good change swaps the generation, a bad one is refused)`);
  if (host.url !== undefined) say(`  curl -k ${host.url}/statusz     (also /healthz?verbose, /metrics, /configz)`);
  say("\nCtrl-C ends it. What happens here is told below.\n");
  const stopping = new AbortController();
  using _ = onSignals({ stop: () => stopping.abort(), reload: () => host.reload("SIGHUP") });
  const ended = host.finished.then(() => stopping.abort());
  await tellChanges(sandbox, (line) => say(`  ${new Date().toLocaleTimeString("en-GB")}  ${line}`), stopping.signal);
  host.stop();
  await ended;
}
