import { isatty } from "node:tty";
import { parseArgs } from "node:util";

import { CodedError, messageOf, taints, visible } from "cloud-controller-host/sdk";

import { systemClock } from "../async/clock.ts";
import { readBundle } from "../bundle/bundle.ts";
import { wantsHelp } from "../config/help/commands.ts";
import { programCommand } from "../config/help/invocation.ts";
import { formatProblems } from "../config/validate/validate.ts";
import { didYouMean } from "../config/values/suggestion.ts";
import { onSignals } from "../process/signals.ts";
import { actions } from "./actions.ts";
import { allChecks, failedControllers, runChecks, startChecks, unfinishedDrain, workSucceeds } from "./checks.ts";
import { sandboxCommand, serveControl } from "./control.ts";
import { helpLines, listenToKeys } from "./keys.ts";
import type { PrepareHost } from "./launcher.ts";
import { openSandbox, type Sandbox } from "./open.ts";
import { Screen } from "./screen.ts";
import { printChanges } from "./watch-output.ts";

const defaultDirectory = ".sandbox";

export const sandboxUsage = (): string => `Usage: cloud-controller-host sandbox [OPTIONS] [-- FLAGS OF THE HOST]
       cloud-controller-host sandbox COMMAND [ARGUMENT] [--directory=DIR]

Runs an API server, a simulated cloud and a host in one process. A COMMAND acts
on a sandbox that runs in another terminal, where a key does the same:

${helpLines().join("\n")}

Without a NAME, the command acts on the last node. A new VM can be named only if
the cloud has no simulator. 0 SECONDS ends the disturbance.

  cloud-controller-host sandbox cloud show service default/web
  cloud-controller-host sandbox cloud fail PUT loadBalancers 403 --for=40s

Options:
  --check          print how long each step took, then exit with status 0, or
                   with 1 when a step did not succeed within 30 s, a plugin
                   was left out, a controller failed or did not return, work
                   of its queue failed and has not succeeded since, or an
                   error was not handled
  --nodes=N        VMs at the start (default 3; 0 if the cloud has no simulator)
  --from=FILE      the cluster and the cloud of a bundle (see plan --bundle)
  --directory=DIR  folder for kubeconfig, cloud config and log: new, empty or of
                   an earlier sandbox (default ${defaultDirectory}; temporary with --check)

Your own plugin: cloud-controller-host sandbox -- --plugin-dir=DIR
Your own cloud:  cloud-controller-host sandbox -- --plugin-dir=DIR \\
                   --cloud-provider=NAME --cloud-config=FILE
`;

const checkTimeoutMs = 30_000;
/** For work that failed for a moment, as on a conflict. */
const workTimeoutMs = 2_000;

interface Output {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  /** Resolves when the reader has taken all output. */
  readonly outputRead?: () => Promise<void>;
}

interface SandboxArguments {
  readonly check: boolean;
  readonly nodes: number | undefined;
  readonly directory: string | undefined;
  readonly from: string | undefined;
  /** A command for a running sandbox and its argument; empty when there is none. */
  readonly command: string;
  readonly argument: string;
  readonly flags: readonly string[];
}

/** `cloud-controller-host sandbox`: runs a sandbox, or sends a command to a running one. Resolves to the exit status. */
export async function runSandbox(argv: readonly string[], output: Output, prepare: PrepareHost): Promise<number> {
  const { stdout, stderr } = output;
  using screen = new Screen(stdout, process.stdout);
  const { print } = screen;
  try {
    if (asksForHelp(argv)) return (stdout(sandboxUsage()), 0);
    const { check, command, argument, ...options } = readArguments(argv);
    if (command !== "")
      return (stdout(`${await sandboxCommand(options.directory ?? defaultDirectory, command, argument)}\n`), 0);
    const { directory = check ? undefined : defaultDirectory, nodes, from, flags } = options;
    await using sandbox = await openSandbox(prepare, {
      ...(directory === undefined ? {} : { directory }),
      ...(nodes === undefined ? {} : { nodes }),
      ...(from === undefined ? {} : { bundle: await readBundle(from) }),
      flags,
    });
    using _ = onUnhandled(sandbox.unhandled);
    return check ? await runCheck(sandbox, print) : await runUntilStopped(sandbox, output, print);
  } catch (error) {
    // It may quote a bundle, whose control characters must not reach a terminal.
    stderr(`Error: ${visible(messageOf(error))}\n`);
    return 1;
  }
}

/** As in a host, an error that no code has handled ends no process. */
function onUnhandled(report: (error: unknown) => void): Disposable {
  const stack = new DisposableStack();
  for (const event of ["unhandledRejection", "uncaughtException"] as const) {
    process.on(event, report);
    stack.defer(() => void process.off(event, report));
  }
  return stack;
}

const sandboxOptions = {
  check: { type: "boolean", default: false },
  nodes: { type: "string" },
  from: { type: "string" },
  directory: { type: "string" },
  for: { type: "string" },
} as const;

/** After `--` come flags of the host. */
const asksForHelp = (argv: readonly string[]): boolean =>
  wantsHelp(argv.slice(0, argv.includes("--") ? argv.indexOf("--") : argv.length));

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
  const unknown = tokens.flatMap((token) =>
    token.kind === "option" && !Object.hasOwn(sandboxOptions, token.name)
      ? [
          `unknown option ${token.rawName}${didYouMean(token.name, [...Object.keys(sandboxOptions), "help"], "--")}; flags of the host ` +
            `come after "--": sandbox -- ${token.rawName} ("bun run" removes one "--": write host/main.ts in place of run)`,
        ]
      : [],
  );
  const { check, nodes, directory, from } = values;
  const count = typeof nodes === "string" && /^\d+$/u.test(nodes) ? Number(nodes) : Number.NaN;
  const isCount = nodes === undefined || count <= 5000;
  const problems = [
    ...unknown,
    ...(typeof check === "string" && !/^(?:true|false)$/u.test(check)
      ? [`--check=${check}: must be true or false`]
      : []),
    ...(directory === true || directory === "" ? ["--directory: name a folder"] : []),
    ...(from === true || from === "" ? ["--from: name a file"] : []),
    ...(from !== undefined && nodes !== undefined ? ["--nodes: a bundle has its own nodes; leave it out"] : []),
    ...(isCount ? [] : [`--nodes${nodes === true ? "" : `=${nodes}`}: expected a whole number from 0 to 5000`]),
  ];
  if (problems.length > 0) throw new CodedError("InvalidArgument", formatProblems(problems));
  const command = commandOf(positionals.slice(0, 2).join(" "));
  const argument = [...positionals.slice(2), ...(values.for === undefined ? [] : [`for=${values.for}`])].join(" ");
  if (positionals.length > 3 && !command.startsWith("cloud "))
    throw new CodedError("InvalidArgument", `sandbox ${command} takes at most one argument; see sandbox --help`);
  return {
    check: check === true || check === "true",
    nodes: nodes === undefined ? undefined : count,
    directory: typeof directory === "string" ? directory : undefined,
    from: typeof from === "string" ? from : undefined,
    command,
    argument,
    flags: separator < 0 ? [] : argv.slice(separator + 1),
  };
}

function commandOf(words: string): string {
  const all = actions.map(({ command }) => command);
  if (words === "" || all.includes(words)) return words;
  const ofGroup = all.filter((command) => command.split(" ")[0] === words.split(" ")[0]);
  const commands = ofGroup.length === 0 ? all : ofGroup;
  throw new CodedError(
    "InvalidArgument",
    `unknown command "sandbox ${words}"${didYouMean(words, commands, "")}; the commands are ${commands.join(", ")}`,
  );
}

async function runCheck(sandbox: Sandbox, print: (line: string) => void): Promise<number> {
  describe(sandbox, print);
  const many = sandbox.nodeNames.length > 100 ? " (many nodes need more: -- --kube-api-qps=500)" : "";
  const ended = new AbortController();
  void sandbox.host.finished.then(() => ended.abort());
  const options = { print, clock: systemClock, timeoutMs: checkTimeoutMs, hint: many, signal: ended.signal };
  const passed = await runChecks(allChecks(sandbox), options);
  if (ended.signal.aborted) print(`  ✗ The host stopped: ${reasonOf(sandbox)}`);
  const failed = failedControllers(sandbox);
  // After a rollback, the failed controller is left out, too.
  const leftOut = sandbox.host.status.refusedPlugins.filter(({ plugin }) => !failed.has(plugin));
  for (const { plugin, reason } of leftOut) print(`  ✗ Plugin left out: ${plugin}: ${reason}`);
  for (const failure of failed.values()) print(`  ✗ Controller failed: ${failure}`);
  const drain = unfinishedDrain(sandbox.host.status);
  if (drain !== undefined) print(`  ✗ ${drain}`);
  await workSucceeds(sandbox, { clock: systemClock, timeoutMs: workTimeoutMs });
  const failing = sandbox.failingWork.lines;
  for (const line of failing) print(`  ✗ Work failed: ${line}`);
  const failures = [...leftOut, ...failed, ...failing, ...(drain === undefined ? [] : [drain])];
  return passed && failures.length === 0 ? 0 : 1;
}

async function runUntilStopped(sandbox: Sandbox, output: Output, print: (line: string) => void): Promise<number> {
  const { host } = sandbox;
  const { outputRead } = output;
  let stopped = false;
  const stop = (): void => {
    stopped = true;
    host.stop();
  };
  await using running = new AsyncDisposableStack();
  const hasTerminal = process.stdin.isTTY;
  // A terminal sends SIGHUP, too, when it is closed.
  const reload = (): void => (hasTerminal && !isatty(process.stdin.fd) ? stop() : host.reload("SIGHUP"));
  running.use(onSignals({ stop, reload }));
  describe(sandbox, print);
  const options = { print, clock: systemClock, timeoutMs: checkTimeoutMs, hint: `; see ${sandbox.files.log}` };
  const ended = await Promise.race([runChecks(startChecks(sandbox), options).then(() => undefined), host.finished]);
  if (ended === undefined) suggest(sandbox, print, false);
  const keys = hasTerminal
    ? "Keys: ? lists them and repeats this, b opens the console, q stops."
    : `No terminal, so no keys: kill ${process.pid} or Ctrl-C stops it.`;
  if (ended === undefined) print(`\n${keys} Changes:\n`);
  const printNow = (line: string): void => print(`  ${new Date().toLocaleTimeString("en-GB")}  ${line}`);
  running.use(printChanges(sandbox, printNow));
  running.use(await serveControl(sandbox, printNow));
  const repeat = (): void => {
    describe(sandbox, print);
    suggest(sandbox, print, true);
    print("\nKeys in this terminal, and the same for another:\n");
    helpLines().forEach(print);
    print("");
  };
  // A terminal changes its mode after its output, and the event loop would wait for one that is suspended.
  const finished = host.finished.then(() => true);
  const isFinished = await Promise.race([finished, outputRead?.()]);
  if (isFinished !== true) running.use(listenToKeys(sandbox, { repeat, report: printNow, stop, outputRead }));
  const status = await host.finished;
  if (stopped) return status;
  output.stderr(`Error: the host stopped: ${reasonOf(sandbox)}; its log is ${sandbox.files.log}\n`);
  return status === 0 ? 1 : status;
}

function reasonOf({ host: { failure, status } }: Sandbox): string {
  if (failure !== undefined) return failure;
  const { leader, identity } = status;
  return leader !== "" && leader !== identity ? `the lease is now held by ${leader}` : "it lost the lease";
}

function describe(sandbox: Sandbox, print: (line: string) => void): void {
  const { api, cloud, cloudConfig, host, consoleUrl, files } = sandbox;
  print("\ncloud-controller-host sandbox\n");
  const [firstLine = "", ...moreLines] = cloud?.describe() ?? [
    "no simulator: only the API server and the host run here",
  ];
  print(`  API server  ${api.url}, kubeconfig ${files.kubeconfig}`);
  if (cloudConfig !== files.cloudConfig) print(`  Cloud       the one that ${cloudConfig} names`);
  print(`  ${cloudConfig === files.cloudConfig ? "Cloud     " : "Not in use"}  ${firstLine}`);
  for (const line of moreLines) print(`              ${line}`);
  print(`  Host        ${host.url ?? "no secure port"}, log ${files.log}`);
  print(`  Console     ${consoleUrl ?? "none"}\n`);
}

/** Commands for another terminal; `all` of them on request, so that the first screen fits 24 rows. */
function suggest(
  { cloud, cloudConfig, directory, files, host }: Sandbox,
  print: (line: string) => void,
  all: boolean,
): void {
  const kubectl = `kubectl --kubeconfig ${files.kubeconfig}`;
  const other = directory === defaultDirectory ? "" : ` --directory=${directory}`;
  print("\nIn another terminal:\n");
  print(`  ${kubectl} get nodes -o wide`);
  print(`  ${kubectl} create service loadbalancer web --tcp=80`);
  print(`  ${programCommand(process.env, process.cwd())} sandbox vm add${other}`);
  if (all) {
    print(`  ${kubectl} taint nodes --all ${taints.uninitialized}=true:NoSchedule`);
    print(`  ${kubectl} get events -A -w`);
    if (host.url !== undefined) print(`  curl -k -H @${files.header} ${host.url}/statusz`);
  }
  if (cloud !== undefined || cloudConfig !== files.cloudConfig)
    print(`\nEdit ${cloudConfig}: a valid change is swapped in, an invalid one is refused.`);
}
