import type { Flag, FlagCell } from "../flags/flag.ts";
import { flagRows } from "../flags/flags.ts";
import { collectOptions, type Options } from "../flags/options.ts";
import { type PluginFlag, pluginFlags, type PluginWithFlags } from "../flags/plugin-flags.ts";
import { quoted } from "../values/parsed.ts";
import { scan, type Scanned } from "./scan.ts";

/** The program's name in help and messages. */
export const programName = "cloud-controller-host";

/** One flag with its effective value in Go's form, for `FLAG:` log lines and `/flagz`. */
export interface Setting {
  readonly name: string;
  readonly text: string;
  /** True if set on the command line. */
  readonly given: boolean;
}

/**
 * The own options of these plugins as given, text or lists of texts, by plugin name and property. The plugins of a later
 * generation may have flags that those at the start did not.
 */
export type OwnOptions = (
  plugins: readonly PluginWithFlags[],
) => ReadonlyMap<string, Readonly<Record<string, unknown>>>;

export type CommandLine =
  | {
      readonly kind: "run";
      readonly options: Options;
      readonly own: OwnOptions;
      /** Warnings before startup: deprecated flags and values without effect. */
      readonly notices: readonly string[];
      /** All flags, sorted by name. */
      readonly settings: readonly Setting[];
    }
  | { readonly kind: "help" }
  | { readonly kind: "version"; readonly raw: boolean }
  | {
      readonly kind: "refused";
      readonly problems: readonly string[];
      /** The options that could be read; the others have their defaults. */
      readonly options: Options;
      readonly usageHint: string;
    };

/**
 * Parses a command line (without program and script). All problems are reported at once. `incomplete`: plugins were left
 * out because they failed to load, and an unknown flag may be one of theirs.
 */
export function parse(
  argv: readonly string[],
  plugins: readonly PluginWithFlags[] = [],
  { incomplete = false }: { readonly incomplete?: boolean } = {},
): CommandLine {
  const own = plugins.flatMap(pluginFlags);
  const read = readFlags(argv, own, incomplete);
  const options = optionsOf(read);
  if (options.help) return { kind: "help" };
  const problems = [...clashes(own), ...read.problems, ...argumentProblems(read.positional)];
  if (problems.length > 0)
    return { kind: "refused", problems, options, usageHint: `run "${programName} --help" for a list of flags` };
  if (options.version === "true" || options.version === "raw")
    return { kind: "version", raw: options.version === "raw" };
  const ownOf: OwnOptions = (present) => ownOptions(argv, present.flatMap(pluginFlags));
  return { kind: "run", options, own: ownOf, notices: notices(read), settings: settingsOf(read) };
}

/** The flags needed before the plugins are loaded, which add further flags. Problems are left to `parse`. */
export function peek(
  argv: readonly string[],
): Pick<
  Options,
  "cloudConfig" | "help" | "pluginDir" | "pluginFailurePolicy" | "pluginInitTimeout" | "pluginLock" | "version"
> {
  const { cloudConfig, help, pluginDir, pluginFailurePolicy, pluginInitTimeout, pluginLock, version } = optionsOf(
    readFlags(argv, []),
  );
  return { cloudConfig, help, pluginDir, pluginFailurePolicy, pluginInitTimeout, pluginLock, version };
}

interface ReadFlags extends Scanned {
  readonly flags: ReadonlyMap<string, Flag<unknown>>;
  readonly cells: ReadonlyMap<string, FlagCell<unknown>>;
}

function readFlags(argv: readonly string[], own: readonly PluginFlag[], ignoresUnknown = false): ReadFlags {
  const flags = new Map([...own, ...flagRows].map(({ name, flag }) => [name, flag]));
  const cells = new Map([...flags].map(([name, flag]) => [name, flag.cell()]));
  const read = (name: string, text: string): string | undefined => cells.get(name)?.read(text);
  return { flags, cells, ...scan(argv, { flags, read, ignoresUnknown }) };
}

const optionsOf = ({ cells }: ReadFlags): Options =>
  collectOptions(({ name, flag }) => cells.get(name)?.value ?? flag.defaultValue);

/** Conflicts of flag names between plugins, or between a plugin and this program. */
function clashes(own: readonly PluginFlag[]): readonly string[] {
  const taken = new Map(flagRows.map(({ name }) => [name, "this program"]));
  const problems: string[] = [];
  for (const { name, plugin, property } of own) {
    const owner = taken.get(name);
    if (owner === undefined) taken.set(name, `plugin "${plugin}"`);
    else
      problems.push(`plugin "${plugin}" cannot have the flag --${name} for its option "${property}": ${owner} has it`);
  }
  return problems;
}

function argumentProblems(positional: readonly string[]): readonly string[] {
  const words = positional.filter((word) => word !== "");
  if (words.length === 0) return [];
  return [`${quoted(programName)} does not take any arguments, got [${words.map(quoted).join(" ")}]`];
}

function ownOptions(argv: readonly string[], own: readonly PluginFlag[]): ReturnType<OwnOptions> {
  const { cells } = readFlags(argv, own);
  const given = own.flatMap(({ plugin, property, name }) => {
    const cell = cells.get(name);
    return cell?.given === true ? [{ plugin, property, value: cell.value }] : [];
  });
  return new Map(
    [...new Set(own.map(({ plugin }) => plugin))].map((name) => [
      name,
      Object.fromEntries(given.filter(({ plugin }) => plugin === name).map(({ property, value }) => [property, value])),
    ]),
  );
}

function notices({ flags, cells, ignored }: ReadFlags): readonly string[] {
  const unknown = ignored.map((name) => `Unknown flag --${name} ignored: it may belong to a plugin that was left out`);
  const known = [...flags].flatMap(([name, flag]) => {
    const cell = cells.get(name);
    if (cell?.given !== true) return [];
    const notice = flag.noticeOf(cell.value);
    return [
      ...(flag.deprecated === undefined ? [] : [`Flag --${name} has been deprecated, ${flag.deprecated}`]),
      ...(notice === undefined ? [] : [`--${name} ${notice}`]),
    ];
  });
  return [...unknown, ...known];
}

const settingsOf = ({ cells }: ReadFlags): readonly Setting[] =>
  [...cells]
    .map(([name, { text, given }]) => ({ name, text, given }))
    .toSorted((one, other) => (one.name < other.name ? -1 : 1));
