import { parseArgs } from "node:util";

import { CodedError, messageOf, taints } from "cloud-controller-host/sdk";

import { systemClock } from "../async/clock.ts";
import { didYouMean } from "../config/suggestion.ts";
import { onSignals } from "../process/signals.ts";
import { actions } from "./actions.ts";
import { allChecks, runChecks, startChecks } from "./checks.ts";
import { sandboxCommand, serveControl } from "./control.ts";
import { helpLines, listenToKeys } from "./keys.ts";
import type { PrepareHost } from "./launcher.ts";
import { openSandbox, type Sandbox } from "./open.ts";
import { printChanges } from "./watch-output.ts";

const defaultDirectory = ".sandbox";

const usage =
  (): string => `Usage: cloud-controller-host sandbox [--check] [--nodes=3] [--directory=DIR] [-- flags of the host]
       cloud-controller-host sandbox COMMAND [ARGUMENT] [--directory=DIR]

An API server, a simulated cloud and a host, in one process. With a COMMAND: does something to the VMs or the cloud of a
sandbox that runs in another terminal. The same by key in the sandbox itself:

${helpLines().join("\n")}

  --check             print how long each step took and exit: 0, or 1 when one did not succeed within 30 s
  --nodes=N           VMs to begin with (default 3; 0 with a cloud that has no simulator)
  --directory=DIR     folder for kubeconfig, cloud config and log; new, empty or a sandbox's
                      (default ${defaultDirectory}; with --check a temporary one)

A plugin of your own: cloud-controller-host sandbox -- --plugin-dir=DIR
A cloud of your own:  cloud-controller-host sandbox -- --plugin-dir=DIR --cloud-provider=NAME --cloud-config=FILE
`;

const checkTimeoutMs = 30_000;

interface Output {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
}

interface SandboxArguments {
  readonly check: boolean;
  readonly help: boolean;
  readonly nodes: number | undefined;
  readonly directory: string | undefined;
  /** A command for a running sandbox and its argument; empty when there is none. */
  readonly command: string;
  readonly argument: string;
  readonly flags: readonly string[];
}

/** `cloud-controller-host sandbox`: runs a sandbox, or sends a command to a running one. Resolves to the exit status. */
export async function runSandbox(argv: readonly string[], output: Output, prepare: PrepareHost): Promise<number> {
  const { stdout, stderr } = output;
  const print = (line: string): void => stdout(`${line}\n`);
  try {
    const { check, help, command, argument, ...options } = readArguments(argv);
    if (help) return (stdout(usage()), 0);
    if (command !== "")
      return (print(await sandboxCommand(options.directory ?? defaultDirectory, command, argument)), 0);
    const { directory = check ? undefined : defaultDirectory, nodes, flags } = options;
    await using sandbox = await openSandbox(prepare, {
      ...(directory === undefined ? {} : { directory }),
      ...(nodes === undefined ? {} : { nodes }),
      flags,
    });
    return check ? await runCheck(sandbox, print) : await runUntilStopped(sandbox, output, print);
  } catch (error) {
    stderr(`Error: ${messageOf(error)}\n`);
    return 1;
  }
}

const sandboxOptions = {
  check: { type: "boolean", default: false },
  help: { type: "boolean", short: "h", default: false },
  nodes: { type: "string" },
  directory: { type: "string" },
} as const;

function readArguments(argv: readonly string[]): SandboxArguments {
  const separator = argv.indexOf("--");
  const own = separator < 0 ? argv : argv.slice(0, separator);
  const { values, positionals, tokens } = parseArgs({
    args: [...own],
    allowPositionals: true,
    strict: false,
    tokens: true,
    options: sandboxOptions,
  });
  const unknown = tokens.find((token) => token.kind === "option" && !Object.hasOwn(sandboxOptions, token.name));
  if (unknown?.kind === "option")
    throw new CodedError(
      "UnknownOption",
      `unknown option ${unknown.rawName}${didYouMean(unknown.name, Object.keys(sandboxOptions), "--")}; flags of the host ` +
        `come after "--": sandbox -- ${unknown.rawName}`,
    );
  const { nodes, directory } = values;
  if (directory === true || directory === "") throw new CodedError("InvalidOption", "--directory: name a folder");
  const count = Number(nodes);
  if (nodes !== undefined && !(Number.isInteger(count) && count >= 0 && count <= 5000))
    throw new CodedError("InvalidOption", `--nodes=${nodes}: expected a whole number from 0 to 5000`);
  const words = positionals.length > 0 ? positionals.slice(0, 2).join(" ") : "";
  return {
    check: values.check === true,
    help: values.help === true,
    nodes: nodes === undefined ? undefined : count,
    directory: typeof directory === "string" ? directory : undefined,
    command: commandOf(words),
    argument: positionals[2] ?? "",
    flags: separator < 0 ? [] : argv.slice(separator + 1),
  };
}

function commandOf(words: string): string {
  const commands = actions.map(({ command }) => command);
  if (words === "" || commands.includes(words)) return words;
  throw new CodedError(
    "UnknownCommand",
    `unknown command "sandbox ${words}"${didYouMean(words, commands, "")}; see sandbox --help`,
  );
}

async function runCheck(sandbox: Sandbox, print: (line: string) => void): Promise<number> {
  describe(sandbox, print);
  const many = sandbox.nodeNames.length > 100 ? " (many nodes need more: -- --kube-api-qps=500)" : "";
  const options = { print, clock: systemClock, timeoutMs: checkTimeoutMs, hint: many };
  return (await runChecks(allChecks(sandbox), options)) ? 0 : 1;
}

async function runUntilStopped(sandbox: Sandbox, output: Output, print: (line: string) => void): Promise<number> {
  const { host } = sandbox;
  let stopped = false;
  const stop = (): void => {
    stopped = true;
    host.stop();
  };
  await using running = new AsyncDisposableStack();
  running.use(onSignals({ stop, reload: () => host.reload("SIGHUP") }));
  describe(sandbox, print);
  const options = { print, clock: systemClock, timeoutMs: checkTimeoutMs, hint: `; see ${sandbox.files.log}` };
  await Promise.race([runChecks(startChecks(sandbox), options), host.finished]);
  suggest(sandbox, print);
  const printNow = (line: string): void => print(`  ${new Date().toLocaleTimeString("en-GB")}  ${line}`);
  running.use(printChanges(sandbox, printNow));
  running.use(await serveControl(sandbox, printNow));
  running.use(listenToKeys(sandbox, { print: printNow, stop }));
  const status = await host.finished;
  if (stopped) return status;
  output.stderr(`Error: the host stopped (${reasonOf(sandbox)}); its log is ${sandbox.files.log}\n`);
  return status === 0 ? 1 : status;
}

function reasonOf({ host: { status } }: Sandbox): string {
  const { leader, identity } = status;
  return leader !== "" && leader !== identity ? `the lease is now held by ${leader}` : "it lost the lease";
}

function describe({ api, cloud, host, files, nodeNames }: Sandbox, print: (line: string) => void): void {
  print("\ncloud-controller-host sandbox\n");
  print(`  API server  ${api.url}   kubeconfig in ${files.kubeconfig}`);
  if (cloud === undefined) print("  Cloud       has no simulator: only the API server and the host run here");
  for (const line of cloud?.describe() ?? []) print(`  Cloud       ${line}`);
  print(`  Host        ${host.url ?? "no secure port"}   process ${process.pid}, log in ${files.log}`);
  print(`  Nodes       ${nodeNames.length}\n`);
}

function suggest({ files, host }: Sandbox, print: (line: string) => void): void {
  print("\nIn another terminal:\n");
  print(`  kubectl --kubeconfig ${files.kubeconfig} get nodes -o wide`);
  print(`  kubectl --kubeconfig ${files.kubeconfig} taint nodes --all ${taints.uninitialized}=true:NoSchedule`);
  print(`  kubectl --kubeconfig ${files.kubeconfig} get events -A -w`);
  print(`  edit ${files.cloudConfig}   (a valid change swaps the generation, an invalid one is refused)`);
  if (host.url !== undefined)
    print(`  curl -k -H @${files.header} ${host.url}/statusz   (also /healthz?verbose, /metrics, /configz)`);
  print("\nIn this terminal:\n");
  helpLines().forEach(print);
  print("\nChanges:\n");
}
