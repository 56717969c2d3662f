import { type Flag, hiddenText } from "../flags/flag.ts";
import { quoted } from "../values/parsed.ts";
import { didYouMean, isMisspelled } from "../values/suggestion.ts";

/** The known flags, and the receiver of their arguments. */
interface FlagReader {
  readonly flags: ReadonlyMap<string, Flag<unknown>>;
  /** Applies one occurrence of a flag; returns the problem with its argument, if any. */
  read(name: string, text: string): string | undefined;
  /** Unknown flags, unless misspelled, are ignored: they may belong to plugins that failed to load. */
  readonly ignoresUnknown: boolean;
}

export interface Scanned {
  readonly positional: readonly string[];
  /** All problems in the order of the command line, in the words of Go's pflag. */
  readonly problems: readonly string[];
  /** Names of ignored flags. */
  readonly ignored: readonly string[];
}

/**
 * Scans a command line by pflag's rules: `--name=value` or `--name value`, `-xvalue`, bare switches, `--` before
 * positional arguments. Names may be written with `_` for `-`. Unlike pflag it does not stop at the first problem.
 */
export function scan(argv: readonly string[], reader: FlagReader): Scanned {
  const walk: Walk = { argv, at: 0, reader, positional: [], problems: [], ignored: [] };
  const shorthands = new Map([...reader.flags].map(([name, { shorthand }]) => [shorthand, name]));
  while (walk.at < argv.length) {
    const argument = argv[walk.at++] ?? "";
    if (argument === "--") {
      walk.positional.push(...argv.slice(walk.at));
      break;
    }
    if (argument.startsWith("--")) long(walk, argument);
    else if (argument.startsWith("-") && argument.length > 1) short(walk, shorthands, argument);
    else walk.positional.push(argument);
  }
  return walk;
}

interface Walk extends Scanned {
  readonly argv: readonly string[];
  at: number;
  readonly reader: FlagReader;
  readonly positional: string[];
  readonly problems: string[];
  readonly ignored: string[];
}

function long(walk: Walk, argument: string): void {
  const equals = argument.indexOf("=");
  const typed = argument.slice(2, equals < 0 ? undefined : equals);
  if (typed === "" || typed.startsWith("-")) {
    walk.problems.push(`bad flag syntax: ${argument}`);
    return;
  }
  const name = typed.replaceAll("_", "-");
  const flag = walk.reader.flags.get(name);
  if (flag === undefined) {
    const known = [...walk.reader.flags.keys()];
    if (walk.reader.ignoresUnknown && !isMisspelled(name, known)) walk.ignored.push(name);
    else walk.problems.push(`unknown flag: --${typed}${remedyOf(name) ?? didYouMean(name, known, "--")}`);
    if (equals < 0) skipArgument(walk);
    return;
  }
  const text = equals >= 0 ? argument.slice(equals + 1) : (flag.bare ?? walk.argv[walk.at++]);
  if (text === undefined) walk.problems.push(`flag needs an argument: --${typed}`);
  else take(walk, name, flag, text);
}

function remedyOf(name: string): string | undefined {
  const remedy = removedFlags.get(name);
  return remedy === undefined ? undefined : ` (${remedy})`;
}

const goesToStandardError = "removed from Kubernetes; the log goes to standard error: leave it out";

/** Remedies for flags that only older Go binaries had. */
export const removedFlags: ReadonlyMap<string, string> = new Map([
  ["port", "removed from Kubernetes; use --secure-port"],
  ["address", "removed from Kubernetes; use --bind-address"],
  ...[
    "add-dir-header",
    "alsologtostderr",
    "log-backtrace-at",
    "log-dir",
    "log-file",
    "log-file-max-size",
    "logtostderr",
    "one-output",
    "skip-headers",
    "skip-log-headers",
    "stderrthreshold",
  ].map((name) => [name, goesToStandardError] as const),
]);

/** One or more one-letter flags: `-h`, `-v=2`, `-v2`, `-v 2`, `-hv2`. */
function short(walk: Walk, shorthands: ReadonlyMap<string | undefined, string>, argument: string): void {
  let letters = argument.slice(1);
  while (letters !== "") {
    const letter = letters.charAt(0);
    const name = shorthands.get(letter);
    const flag = name === undefined ? undefined : walk.reader.flags.get(name);
    if (name === undefined || flag === undefined) {
      walk.problems.push(`unknown shorthand flag: '${letter}' in -${letters}`);
      return;
    }
    const rest = letters.slice(1);
    if (flag.bare !== undefined && !rest.startsWith("=")) {
      take(walk, name, flag, flag.bare);
      letters = rest;
      continue;
    }
    const text = rest.length > 1 && rest.startsWith("=") ? rest.slice(1) : rest === "" ? walk.argv[walk.at++] : rest;
    if (text === undefined) walk.problems.push(`flag needs an argument: '${letter}' in -${letters}`);
    else take(walk, name, flag, text);
    return;
  }
}

function take(walk: Walk, name: string, flag: Flag<unknown>, text: string): void {
  const problem = walk.reader.read(name, text);
  if (problem === undefined) return;
  const shown = flag.shorthand === undefined ? `--${name}` : `-${flag.shorthand}, --${name}`;
  walk.problems.push(`invalid argument ${flag.secret ? hiddenText : quoted(text)} for "${shown}" flag: ${problem}`);
}

/** The argument after an unknown flag may be its value, so it is not reported as a second problem. */
function skipArgument(walk: Walk): void {
  const next = walk.argv[walk.at];
  if (next !== undefined && !next.startsWith("-")) walk.at++;
}
