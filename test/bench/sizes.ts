import { CodedError } from "cloud-controller-host/sdk";

import { numberIn, type Result } from "./runs.ts";
import { table } from "./table.ts";

const megabytes = (mebibytes: number): string => `${Math.round((mebibytes * 2 ** 20) / 1e6)} MB`;
const seconds = (value: number): string => `${value.toFixed(1)} s`;

/** A table of the sizes of a deployment: a row for each result of a bench, by its columns. */
interface Sizes {
  readonly command: RegExp;
  readonly by: string;
  readonly columns: readonly (readonly [string, (figure: (name: string) => number) => string])[];
}

const sizes: readonly Sizes[] = [
  {
    command: /^scale --nodes=\d+/u,
    by: "nodes",
    columns: [
      ["Nodes", (figure) => `${figure("nodes")}`],
      ["Memory", (figure) => megabytes(figure("initializedRssMiB"))],
      ["With reloads", (figure) => `${megabytes(figure("reloadRssMiB"))} after ${figure("reloads")}`],
      ["CPU until all are initialized", (figure) => seconds(figure("cpuSeconds"))],
      ["CPU at rest", (figure) => `${Math.round(10 * figure("restCpuPercent"))}m`],
      ["Hand-over", (figure) => seconds(figure("handOverMs") / 1000)],
    ],
  },
  {
    command: /^services --services=\d+$/u,
    by: "services",
    columns: [
      ["Services", (figure) => `${figure("services")}`],
      ["At most", (figure) => megabytes(figure("peakRssMiB"))],
      ["Until all have an address", (figure) => seconds(figure("seconds"))],
      ["CPU until then", (figure) => seconds(figure("hostCpuSeconds"))],
      ["Restart", (figure) => seconds(figure("restartSeconds"))],
      ["CPU of a restart", (figure) => seconds(figure("restartHostCpuSeconds"))],
    ],
  },
];

/** The page with its tables of sizes as the results have them: of several commands for one size, the shortest. */
export const withSizes = (page: string, results: readonly Result[]): string =>
  sizes.reduce((text, { command, by, columns }) => {
    const rows = results
      .filter((result) => command.test(result.command))
      .toSorted((one, other) => one.command.length - other.command.length)
      .filter((one, index, all) => all.findIndex((other) => numberIn(other, by) === numberIn(one, by)) === index)
      .toSorted((one, other) => numberIn(one, by) - numberIn(other, by))
      .map((result) => columns.map(([, cell]) => cell((name) => numberIn(result, name))));
    const head = columns.map(([title]) => title);
    return replaceTable(text, head, rows);
  }, page);

function replaceTable(page: string, head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = page.split("\n");
  const cellsOf = (line: string): string => line.replaceAll(/ *\| */gu, "|");
  const begin = lines.findIndex((line) => cellsOf(line) === `|${head.join("|")}|`);
  if (begin < 0) throw new CodedError("InvalidArgument", `the page has no table with the columns ${head.join(", ")}`);
  const length = lines.slice(begin).findIndex((line) => !line.startsWith("|"));
  return lines.toSpliced(begin, length, ...table([head, ...rows])).join("\n");
}
