import { join } from "node:path";

import { type Environment, messageOf } from "cloud-controller-host/sdk";

import { systemClock } from "../async/clock.ts";
import { OutstandingWork } from "../async/outstanding-work.ts";
import type { Options } from "../config/flags/options.ts";
import { help, version } from "../config/help/help.ts";
import { parse, peek } from "../config/parse/parse.ts";
import { optionsOfShard } from "../config/validate/shard.ts";
import { formatProblems, validate, validateEach } from "../config/validate/validate.ts";
import { resolveControllers } from "../config/values/controller-list.ts";
import { pluginLoader, type PluginSet } from "../generation/plugins/load.ts";
import { PrivateCopies } from "../generation/plugins/private-copies.ts";
import { fileSource } from "../generation/triggers/config-source.ts";
import { readOnce } from "../generation/triggers/content-trigger.ts";
import { type RunningHost, startHost } from "../host.ts";
import { readMigrations } from "../process/leader-election/migration-files.ts";
import { redactText } from "../process/log/redact.ts";
import type { HostInput } from "../run/process-parts.ts";

/** Surroundings of a command: environment, output and terminal. */
export interface Surroundings {
  readonly environment: Environment;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  /** Resolves when the reader has taken all output. */
  readonly outputRead?: () => Promise<void>;
  /** Columns of the terminal. */
  readonly width: number;
  /** Output may be colored: it goes to a terminal, and `NO_COLOR` is not set. */
  readonly color?: boolean;
  /** Writes to the terminal what is erased later. Undefined where the errors do not go to one. */
  readonly progress?: ((text: string) => void) | undefined;
  /** Default: from the folders that the command line names. */
  readonly loadPlugins?: typeof loadCommandPlugins;
}

/** The plugins that come with the host. */
export const ownPluginDirectory = join(import.meta.dir, "..", "..", "plugins");

/** Ways for a command line to end before there is a host. */
export interface Ended {
  readonly status: number;
}

/** From a command line to an exit status: 0 after a clean stop, 1 for everything else. Never throws. */
export async function runCommand(
  argv: readonly string[],
  surroundings: Surroundings,
  started: (host: RunningHost) => Disposable,
): Promise<number> {
  try {
    const input = await readCommand(argv, surroundings);
    if ("status" in input) return input.status;
    const host = await startHost(input);
    using _ = started(host);
    const status = await host.finished;
    // The last line, below those of the shutdown: `kubectl logs` and the pod's termination message end with it.
    if (host.failure !== undefined) surroundings.stderr(`Error: ${redactText(host.failure)}\n`);
    return status;
  } catch (error) {
    surroundings.stderr(`Error: ${messageOf(error)}\n`);
    return 1;
  }
}

/** Imports the plugins that a command line names, with the parts that a host needs to load them again. */
export async function loadCommandPlugins(argv: readonly string[]) {
  const early = peek(argv);
  const clock = systemClock;
  const outstanding = new OutstandingWork(clock);
  const copies = new PrivateCopies(clock);
  const directories = [ownPluginDirectory, ...early.pluginDir];
  const loader = pluginLoader({
    directories,
    copies,
    clock,
    outstanding,
    importTimeout: early.pluginInitTimeout,
    lockFile: early.pluginLock,
  });
  const loaded = await loader.load({ mayLeaveOut: () => early.pluginFailurePolicy === "skip" });
  return { loaded, loader, copies, outstanding };
}

/** The options as a command needs them: what it does not use need not be complete. */
export type Adjust = (options: Options, plugins: PluginSet) => Options;

/** Reads and checks a command line and imports the plugins that it names. Reports all problems at once. */
export async function readCommand(
  argv: readonly string[],
  surroundings: Surroundings,
  adjust: Adjust = (options) => options,
): Promise<HostInput | Ended> {
  const { cloudConfig } = peek(argv);
  // Its content is used once two reads, a pause apart, are equal. The import of the plugins takes as long as the pause.
  const firstReading = cloudConfig === "" ? undefined : readOnce(fileSource(cloudConfig), systemClock);
  const { loadPlugins = loadCommandPlugins } = surroundings;
  const { loaded, loader, copies, outstanding } = await loadPlugins(argv);
  const plugins: PluginSet = loaded.ok ? loaded.plugins : { controllers: [], clouds: [], webhooks: [] };
  const leftOut = loaded.ok ? loaded.plugins.refused.map(({ reason }) => reason) : [];
  const offer = {
    controllers: plugins.controllers,
    clouds: plugins.clouds.map(({ name }) => name),
    webhooks: plugins.webhooks.map(({ name }) => name),
  };
  const incomplete = !loaded.ok || leftOut.length > 0;
  const unloaded = loaded.ok ? [] : loaded.problems;
  const command = parse(argv, plugins.controllers, { incomplete });
  if (command.kind === "help" || command.kind === "version")
    for (const reason of [...leftOut, ...unloaded]) surroundings.stderr(`Warning: left out: ${reason}\n`);
  if (command.kind === "help")
    return ended(0, () => surroundings.stdout(help({ ...offer, width: surroundings.width })));
  if (command.kind === "version") return ended(0, () => surroundings.stdout(`${version(command.raw)}\n`));
  const refuse = (problems: readonly string[], hint = ""): Ended =>
    ended(1, () => surroundings.stderr(`Error: ${formatProblems(problems)}\n${hint}`));
  if (command.kind === "refused") {
    const others = loaded.ok ? validateEach(command.options, { ...offer, incomplete }) : [];
    return refuse([...leftOut, ...unloaded, ...command.problems, ...others], `${command.usageHint}\n`);
  }
  if (!loaded.ok) return refuse(unloaded);
  const { own, settings } = command;
  const adjusted = adjust(command.options, loaded.plugins);
  const controllers = resolveControllers(adjusted.controllers, plugins.controllers);
  const options = optionsOfShard({ ...adjusted, controllers });
  const migrations = await readMigrations(options, plugins.controllers);
  const problems = [...validate(options, { ...offer, incomplete }), ...(migrations.ok ? [] : migrations.problems)];
  if (problems.length > 0 || !migrations.ok) return refuse([...leftOut, ...problems]);
  return {
    argv,
    options,
    own,
    notices: [...command.notices, ...migrations.warnings],
    settings,
    plugins: loaded.plugins,
    loader,
    copies,
    outstanding,
    migrations: migrations.value,
    environment: surroundings.environment,
    ...(firstReading !== undefined && { firstReading }),
  };
}

function ended(status: number, say: () => void): Ended {
  say();
  return { status };
}
