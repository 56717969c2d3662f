import { flagRows } from "../config/flags/flags.ts";
import { didYouMean, isMisspelled } from "../config/values/suggestion.ts";

/** Names of a command's own options, without dashes. */
interface OptionNames {
  readonly withValue: readonly string[];
  readonly switches?: readonly string[];
}

interface OwnOptions {
  /** Values by name; empty for a switch that is on. One that is off is absent. */
  readonly given: ReadonlyMap<string, string>;
  /** The other arguments, in order. */
  readonly rest: readonly string[];
  readonly problems: readonly string[];
}

const hostFlags: ReadonlySet<string> = new Set(flagRows.map(({ name }) => name));

/**
 * Takes a command's own options from arguments with flags of the host, as `--name=value` or `--name value`; a switch as
 * `--name`, or with `=true` or `=false`. The last value of a name applies. A misspelled name is a problem, unless it is a
 * flag of the host.
 */
export function takeOwnOptions(argv: readonly string[], { withValue, switches = [] }: OptionNames): OwnOptions {
  const names = [...withValue, ...switches];
  const given = new Map<string, string>();
  const rest: string[] = [];
  const problems: string[] = [];
  for (let at = 0; at < argv.length; at++) {
    const argument = argv[at] ?? "";
    const [, name = "", value] = /^--([^=]+)(?:=(.*))?$/su.exec(argument) ?? [];
    if (switches.includes(name)) {
      if (value === undefined || value === "true") given.set(name, "");
      else if (value === "false") given.delete(name);
      else problems.push(`--${name}=${value}: must be true or false`);
    } else if (withValue.includes(name)) {
      const text = value ?? argv[++at];
      if (text === undefined) problems.push(`--${name}: needs a value`);
      else given.set(name, text);
    } else if (hostFlags.has(name) || !isMisspelled(name, names)) rest.push(argument);
    else problems.push(`unknown option --${name}${didYouMean(name, names, "--")}`);
  }
  return { given, rest, problems };
}
