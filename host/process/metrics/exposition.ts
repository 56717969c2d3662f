import { Registry } from "prom-client";

export interface Exposition {
  readonly body: string;
  readonly contentType: string;
}

/** Renders registries in the Prometheus text format, or in OpenMetrics if `accept` prefers it. */
export async function expose(registries: readonly Registry[], accept = ""): Promise<Exposition> {
  if (prefersOpenMetrics(accept)) {
    const parts = await Promise.all(registries.map(openMetrics));
    return { body: `${parts.join("")}# EOF\n`, contentType: Registry.OPENMETRICS_CONTENT_TYPE };
  }
  const parts = await Promise.all(registries.map((registry) => registry.metrics()));
  return {
    body: parts.filter((part) => part.trim() !== "").join("\n"),
    contentType: Registry.PROMETHEUS_CONTENT_TYPE,
  };
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
 * name and has no known type, as client_golang writes it.
 */
async function openMetrics(registry: Registry): Promise<string> {
  const metrics = await registry.getMetricsAsJSON();
  return metrics
    .map(({ name, help, type, values }) => {
      const isCounter = String(type) === "counter";
      const family = isCounter ? name.replace(/_total$/, "") : name;
      const samples = values.map((sample) => {
        const own = "metricName" in sample && typeof sample.metricName === "string" ? sample.metricName : name;
        return `${own}${labelText(sample.labels)} ${numberText(sample.value)}\n`;
      });
      const shownType = isCounter && family === name ? "unknown" : String(type);
      return `# HELP ${family} ${escapeText(help)}\n# TYPE ${family} ${shownType}\n${samples.join("")}`;
    })
    .join("");
}

const escapeText = (text: string): string =>
  text
    .replaceAll("\\", String.raw`\\`)
    .replaceAll("\n", String.raw`\n`)
    .replaceAll('"', String.raw`\"`);

function labelText(labels: Readonly<Partial<Record<string, string | number>>>): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}="${escapeText(String(value))}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  return value === Number.NEGATIVE_INFINITY ? "-Inf" : String(value);
}
