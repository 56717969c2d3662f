import type { ControllerPlugin } from "cloud-controller-host/sdk";

import packageJson from "../../../package.json" with { type: "json" };
import { featureGates } from "../flags/feature-gates.ts";
import type { Flag } from "../flags/flag.ts";
import { type FlagGroup, flagGroups, type FlagRow } from "../flags/flags.ts";
import type { Options } from "../flags/options.ts";
import { pluginGroups } from "../flags/plugin-flags.ts";
import { programName } from "../parse/parse.ts";
import { commandSummaries } from "./commands.ts";
import { wrap } from "./wrap.ts";

const builtVersion = `v${packageJson.version}`;

/** Plugin information for help and the reference page. */
export interface HelpOptions {
  /** The available controller plugins; their options become groups of flags. */
  readonly controllers: readonly Pick<ControllerPlugin, "name" | "aliases" | "enabledByDefault" | "configSchema">[];
  /** Names of the available cloud plugins. */
  readonly clouds: readonly string[];
}

const introduction =
  "Runs the controllers that connect a Kubernetes cluster to its cloud: they initialize nodes, delete nodes whose instance no longer exists, and reconcile load balancers and routes. Plugins and the cloud config are reloaded without releasing the lease.";

/** The text of `--help`, wrapped to `width` columns. */
export function help(options: HelpOptions & { readonly width: number }): string {
  const width = Math.max(options.width, 40);
  const groups = allGroups(options).flatMap((group) => groupLines(group, options, width));
  return [
    ...wrap(introduction, width),
    "",
    "Usage:",
    `  ${programName} [flags]`,
    `  ${programName} COMMAND [arguments]`,
    "",
    "Commands:",
    ...commandLines(width),
    "",
    ...wrap("The container image has all of them but sandbox and new.", width),
    ...groups,
    "",
  ].join("\n");
}

function commandLines(width: number): readonly string[] {
  const column = 21;
  return [...commandSummaries].flatMap(([name, summary]) => {
    const [first = "", ...others] = wrap(summary, width - column);
    return [`  ${name}`.padEnd(column) + first, ...others.map((line) => " ".repeat(column) + line)];
  });
}

/** All groups of flags in order; those of plugins precede the last group, which is global. */
const allGroups = ({ controllers }: HelpOptions): readonly FlagGroup[] => [
  ...flagGroups.slice(0, -1),
  ...pluginGroups(controllers),
  ...flagGroups.slice(-1),
];

const headline = (title: string): string => `${title.charAt(0).toUpperCase()}${title.slice(1)} flags`;

function groupLines({ title, rows }: FlagGroup, options: HelpOptions, width: number): readonly string[] {
  const shown = rows.filter(({ flag }) => flag.deprecated === undefined && !flag.hidden);
  if (shown.length === 0) return [];
  return ["", `${headline(title)}:`, ...shown.flatMap((row) => ["", ...flagLines(row, options, width)])];
}

const indent = "        ";

function flagLines(row: FlagRow, options: HelpOptions, width: number): readonly string[] {
  const { flag, name } = row;
  const start = flag.shorthand === undefined ? `      --${name}` : `  -${flag.shorthand}, --${name}`;
  const word = flag.word === "" ? "" : ` ${flag.word}`;
  const byDefault = showsDefault(flag) ? `   (default ${flag.defaultText})` : "";
  const texts = [flag.help, ...extraHelp(name, options)].filter((text) => text !== "");
  return [
    start + word + byDefault,
    ...texts.flatMap((text) => wrap(text, width - indent.length)).map((line) => indent + line),
  ];
}

const emptyDefaults: ReadonlySet<string> = new Set(["", "false", "0", "0s", "[]"]);
const showsDefault = (flag: Flag<unknown>): boolean => !emptyDefaults.has(flag.defaultText);

/** Help texts that depend on the plugins or the feature gates. */
function extraHelp(name: string, { controllers, clouds }: HelpOptions): readonly string[] {
  if (name === "controllers") return controllerHelp(controllers);
  if (name === "cloud-provider" && clouds.length > 0) return [`Available: ${clouds.join(", ")}.`];
  if (name === "feature-gates") return gateHelp();
  return [];
}

function controllerHelp(controllers: HelpOptions["controllers"]): readonly string[] {
  if (controllers.length === 0) return [];
  const off = controllers.filter(({ enabledByDefault }) => !enabledByDefault).map(({ name }) => name);
  const named = controllers.map(({ name, aliases }) =>
    aliases.length === 0 ? name : `${name} (${aliases.join(", ")})`,
  );
  return [`Available: ${named.join("; ")}.`, ...(off.length === 0 ? [] : [`Disabled by default: ${off.join(", ")}.`])];
}

const gateHelp = (): readonly string[] => [
  "Gates with an effect:",
  ...Object.entries(featureGates).flatMap(([name, gate]) =>
    gate.effect === undefined ? [] : [`${name}=true|false (${gate.stage} - default=${gate.default}): ${gate.effect}.`],
  ),
];

/** The output of `--version`; with `raw` (`--version=raw`) one JSON object with details of this build. */
export const version = (raw: boolean): string =>
  raw
    ? JSON.stringify({ version: builtVersion, bun: Bun.version, platform: `${process.platform}/${process.arch}` })
    : `${programName} ${builtVersion}`;

/** The reported version: the build's own, unless `--version=vX.Y.Z…` overrides it. */
export const reportedVersion = (options: Options): string =>
  options.version.startsWith("v") ? options.version : builtVersion;

const origins: Readonly<Record<Flag<unknown>["from"], string>> = {
  both: "both Go binaries",
  upstream: "the generic Go binary",
  azure: "the Azure Go binary",
  ours: "this program",
};

/** The reference page: all flags, deprecated ones included, as Markdown tables with one row per flag. */
export function reference(options: HelpOptions): string {
  return allGroups(options)
    .map(({ title, rows }) =>
      [
        `### ${headline(title)}`,
        "",
        "| Flag | Value | Default | Known to | Description |",
        "| --- | --- | --- | --- | --- |",
        ...rows.map((row) => referenceRow(row, options)),
        "",
      ].join("\n"),
    )
    .join("\n");
}

function referenceRow({ name, flag }: FlagRow, options: HelpOptions): string {
  const shorthand = flag.shorthand === undefined ? "" : `\`-${flag.shorthand}\`, `;
  const deprecated = flag.deprecated === undefined ? "" : `Deprecated: ${flag.deprecated}.`;
  const meaning = [flag.help, deprecated, ...extraHelp(name, options)].filter((text) => text !== "").join(" ");
  const cells = [
    `${shorthand}\`--${name}\``,
    flag.word === "" ? "switch" : flag.word,
    flag.defaultText === "" ? "" : `\`${flag.defaultText}\``,
    origins[flag.from],
    meaning,
  ];
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|").replaceAll("<", "&lt;").replaceAll(/\s+/g, " ")).join(" | ")} |`;
}
