import { createCooperativeYield } from "cloud-controller-host/sdk";
import { Registry } from "prom-client";

export interface Exposition {
  readonly body: string;
  readonly contentType: string;
}

/** Renders registries in the Prometheus text format, or in OpenMetrics if `accept` prefers it. */
export async function expose(registries: readonly Registry[], accept = ""): Promise<Exposition> {
  const isOpenMetrics = prefersOpenMetrics(accept);
  const families = await familiesOf(registries, isOpenMetrics);
  return isOpenMetrics
    ? { body: `${families.join("")}# EOF\n`, contentType: Registry.OPENMETRICS_CONTENT_TYPE }
    : { body: families.join("\n"), contentType: Registry.PROMETHEUS_CONTENT_TYPE };
}

function prefersOpenMetrics(accept: string): boolean {
  const ranges = mediaRanges(accept);
  const best = (...types: readonly string[]): number =>
    Math.max(0, ...ranges.filter(({ type }) => types.includes(type)).map(({ q }) => q));
  const wanted = best("application/openmetrics-text");
  return wanted > 0 && wanted >= best("text/plain");
}

/** One entry of an `Accept` header, in lower case. An invalid quality is 0. */
interface MediaRange {
  readonly type: string;
  readonly parameters: ReadonlyMap<string, string>;
  readonly q: number;
}

/** The entries of an `Accept` header, in its order. */
export const mediaRanges = (accept: string): readonly MediaRange[] =>
  accept.split(",").map((range) => {
    const [type = "", ...rest] = range.split(";").map((part) => part.trim().toLowerCase());
    const parameters = new Map(
      rest.map((part): [string, string] => {
        const [name = "", value = ""] = part.split("=", 2);
        return [name, value];
      }),
    );
    const q = Number(parameters.get("q") ?? 1);
    return { type, parameters, q: Number.isNaN(q) ? 0 : q };
  });

/**
 * prom-client's own OpenMetrics writer permanently renames its metrics, which breaks the other format; this one does
 * not modify them. The format requires the suffix `_total` of a counter: one that upstream named without it keeps its
 * name and has no known type, as client_golang writes it. Thousands of Services have 80,000 samples, which prom-client
 * writes in one turn of the event loop.
 */
async function familiesOf(registries: readonly Registry[], isOpenMetrics: boolean): Promise<readonly string[]> {
  const metrics = await Promise.all(registries.map((registry) => registry.getMetricsAsJSON()));
  const pause = createCooperativeYield();
  const families: string[] = [];
  for (const { name, help, type, values } of metrics.flat()) {
    const isCounter = isOpenMetrics && String(type) === "counter";
    const family = isCounter ? name.replace(/_total$/, "") : name;
    const shownType = isCounter && family === name ? "unknown" : String(type);
    const lines = [
      `# HELP ${family} ${isOpenMetrics ? escapeText(help) : escapeLines(help)}\n# TYPE ${family} ${shownType}\n`,
    ];
    for (const sample of values) {
      const own = "metricName" in sample && typeof sample.metricName === "string" ? sample.metricName : name;
      lines.push(`${own}${labelText(sample.labels)} ${numberText(sample.value)}\n`);
      const turn = pause();
      if (turn !== undefined) await turn;
    }
    families.push(lines.join(""));
  }
  return families;
}

const escapeLines = (text: string): string => text.replaceAll("\\", String.raw`\\`).replaceAll("\n", String.raw`\n`);
const escapeText = (text: string): string => escapeLines(text).replaceAll('"', String.raw`\"`);

function labelText(labels: Readonly<Partial<Record<string, string | number>>>): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}="${escapeText(String(value))}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  return value === Number.NEGATIVE_INFINITY ? "-Inf" : String(value);
}
