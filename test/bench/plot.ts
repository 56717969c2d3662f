import { type Figure, shown } from "./report.ts";
import { numberIn, type Result } from "./runs.ts";

/** What grows with the number of nodes. */
const plotted = ["firstSeconds", "allSeconds", "restCpuPercent", "reloadP99Ms", "reloadRssMiB", "restartIdleSeconds"];
const [width, height, margin] = [480, 240, 48];

/** One plot per figure of `scale` that was measured with several numbers of nodes. */
export function plotsOf(results: readonly Result[]): ReadonlyMap<string, string> {
  const plots = new Map<string, string>();
  const scale = results
    .filter(({ command }) => command.startsWith("scale"))
    .toSorted((one, other) => numberIn(one, "nodes") - numberIn(other, "nodes"));
  for (const name of plotted) {
    const points = scale
      .map((result) => ({ x: numberIn(result, "nodes"), y: numberIn(result, name), label: labelOf(result) }))
      .filter(({ x, y }) => Number.isFinite(x) && Number.isFinite(y));
    if (new Set(points.map(({ x }) => x)).size < 2) continue;
    plots.set(`scale-${name}.svg`, plot(`${name}: ${unitOf(scale, name)}`, points));
  }
  return plots;
}

/** The number of nodes, and the API server unless it was a real one. */
function labelOf(result: Result): string {
  const server = result.figures.find(({ name }) => name === "server")?.value ?? "real";
  return `${numberIn(result, "nodes")}${server === "real" ? "" : `, ${server}`}`;
}

/** The unit of a figure, without the spread of several runs. */
const unitOf = (results: readonly Result[], name: string): string =>
  results
    .flatMap(({ figures }): readonly Figure[] => figures)
    .find((figure) => figure.name === name)
    ?.unit?.replace(/ ?\([\d.]+ to [\d.]+\)$/u, "") ?? "";

interface Point {
  readonly x: number;
  readonly y: number;
  readonly label: string;
}

function plot(title: string, points: readonly Point[]): string {
  const [maxX, maxY] = [Math.max(...points.map(({ x }) => x)), Math.max(...points.map(({ y }) => y), 1e-9)];
  const at = ({ x, y }: Point): readonly [number, number] => [
    Math.round(margin + (x / maxX) * (width - 2 * margin)),
    Math.round(height - margin - (y / maxY) * (height - 2 * margin)),
  ];
  const marks = points.map((point) => {
    const [cx, cy] = at(point);
    const label = `<text x="${cx}" y="${cy - 8}" text-anchor="middle">${shown(point.y)}</text>`;
    return `<circle cx="${cx}" cy="${cy}" r="3"/>${label}<text x="${cx}" y="${height - 28}" text-anchor="middle">${point.label}</text>`;
  });
  const axes = `M${margin} ${margin / 2}V${height - margin}H${width - margin / 2}`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="11">`,
    `<rect width="${width}" height="${height}" fill="#fff"/><path d="${axes}" fill="none" stroke="#888"/>`,
    `<text x="${margin}" y="16">${title.replaceAll("&", "&amp;").replaceAll("<", "&lt;")}</text>`,
    `<text x="${width / 2}" y="${height - 8}" text-anchor="middle">nodes</text>`,
    `<polyline points="${points.map((point) => at(point).join(",")).join(" ")}" fill="none" stroke="#0067b8"/>`,
    ...marks,
    "</svg>",
    "",
  ].join("\n");
}
