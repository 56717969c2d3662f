import {
  CodedError,
  type Counter,
  type Gauge,
  type Histogram,
  messageOf,
  type MetricLabels,
  type Metrics,
  type MetricSpec,
} from "cloud-controller-host/sdk";
import {
  collectDefaultMetrics,
  Counter as PromCounter,
  Gauge as PromGauge,
  Histogram as PromHistogram,
  Registry,
} from "prom-client";

import { expose, type Exposition } from "./exposition.ts";
import { GaugeSeries } from "./gauge-series.ts";

export interface GenerationMetrics extends Metrics {
  /** Exposes the gauges, with the values they were last set to. A generation that is only prepared shows none. */
  start(): void;
  /** Removes the generation's gauge series, except those that a newer generation has set. Counters stay. */
  end(): void;
}

/** The first specification of a metric; a different one is a conflict. */
interface Shape {
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly buckets: readonly number[];
}

/** Whose gauge series they are. `waiting` holds what was set before the start, by metric and label values. */
interface Scope {
  /** Counts starts: the newest owns a series. */
  id: number;
  started: boolean;
  ended: boolean;
  readonly waiting: Map<string, () => void>;
}

type PromMetric = PromCounter | PromGauge | PromHistogram;

/** Of a counter or histogram. `scrapes`: how many it still has; infinite until its object is gone. */
interface Series {
  readonly labels: object;
  scrapes: number;
}

/** The values of a series' labels. */
const keyOf = <Label extends string>(names: readonly Label[], labels: Partial<MetricLabels<Label>>): string =>
  JSON.stringify(names.map((name) => labels[name]));

/** Scrapes that see the last value of a series whose object is gone: those of two scrapers, each with a failure. */
const lastScrapes = 4;

/** Series that a counter or histogram keeps. The use of one more ends the one that was used longest ago. */
const maxSeries = 4_000;

/** Default process metrics, collected once per process: the collector has no teardown. */
let processRegistry: Registry | undefined;

function processMetrics(): Registry {
  if (processRegistry === undefined) {
    processRegistry = new Registry();
    collectDefaultMetrics({ register: processRegistry });
    // They count all objects of the heap at each scrape, and this runtime does not have such spaces.
    for (const part of ["total", "used", "available"])
      processRegistry.removeSingleMetric(`nodejs_heap_space_size_${part}_bytes`);
  }
  return processRegistry;
}

export interface MetricSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const texts = (labels: object): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, String(value)]));

/** The process's metrics. `root` is for metrics that outlive a reload, `generation()` for all others. */
export class MetricsRegistry {
  readonly root: Metrics;
  readonly #registry = new Registry();
  readonly #known = new Map<string, { readonly shape: Shape; readonly metric: PromMetric }>();
  readonly #gauges = new Map<string, GaugeSeries>();
  /** Series of each counter and histogram, the latest last. They are bounded: labels may name objects, which come and go. */
  readonly #recent = new Map<string, { readonly metric: PromMetric; readonly series: Map<string, Series> }>();
  readonly #withProcess: boolean;
  #starts = 0;

  /** `processMetrics` adds CPU, memory, file handles, event-loop lag and the like. */
  constructor(options: { readonly processMetrics?: boolean } = {}) {
    this.#withProcess = options.processMetrics ?? false;
    // Now, not at the first scrape: a stall of the event loop before it counts.
    if (this.#withProcess) processMetrics();
    this.root = this.#view({ id: Number.POSITIVE_INFINITY, started: true, ended: false, waiting: new Map() });
  }

  generation(): GenerationMetrics {
    const scope: Scope = { id: 0, started: false, ended: false, waiting: new Map() };
    return {
      ...this.#view(scope),
      start: () => {
        if (scope.started) return;
        scope.id = ++this.#starts;
        scope.started = true;
        for (const set of scope.waiting.values()) set();
        scope.waiting.clear();
      },
      end: () => {
        scope.ended = true;
        scope.waiting.clear();
        for (const gauge of this.#gauges.values()) gauge.removeOf(scope.id);
      },
    };
  }

  /** All metrics, in the format that an `Accept` header prefers. */
  async render(accept?: string): Promise<Exposition> {
    const exposition = await expose(this.#withProcess ? [this.#registry, processMetrics()] : [this.#registry], accept);
    for (const { metric, series } of this.#recent.values())
      for (const [key, one] of series) {
        one.scrapes -= 1;
        if (one.scrapes > 0) continue;
        series.delete(key);
        metric.remove({ ...one.labels });
      }
    return exposition;
  }

  /** The current samples of a metric; none where it is not registered. A histogram has those of its `_sum` and `_count`. */
  async samples(name: string): Promise<readonly MetricSample[]> {
    const { values = [] } = (await this.#known.get(name)?.metric.get()) ?? {};
    return values.flatMap(({ labels, value, ...sample }) => {
      const metricName = "metricName" in sample && typeof sample.metricName === "string" ? sample.metricName : name;
      return metricName.endsWith("_bucket") ? [] : [{ name: metricName, labels: texts(labels), value }];
    });
  }

  #view(scope: Scope): Metrics {
    return {
      counter: (spec) => this.#counter(spec),
      gauge: (spec) => this.#gauge(spec, scope),
      histogram: (spec) => this.#histogram(spec),
    };
  }

  #counter<Label extends string>(spec: MetricSpec<Label>): Counter<Label> {
    const metric = this.#register(
      { type: "counter", labels: spec.labels ?? [], buckets: [] },
      spec,
      (config) => new PromCounter(config),
      (known) => known instanceof PromCounter,
    );
    return {
      inc: (labels, by = 1) => {
        if (by < 0 || !Number.isFinite(by)) return;
        metric.inc(labels ?? {}, by);
        this.#keep(spec, metric, labels);
      },
      remove: (labels) => this.#remove(spec, labels),
    };
  }

  #histogram<Label extends string>(
    spec: MetricSpec<Label> & { readonly buckets: readonly number[] },
  ): Histogram<Label> {
    const metric = this.#register(
      { type: "histogram", labels: spec.labels ?? [], buckets: spec.buckets },
      spec,
      (config) => new PromHistogram({ ...config, buckets: [...spec.buckets] }),
      (known) => known instanceof PromHistogram,
    );
    return {
      observe: (value, labels) => {
        if (!Number.isFinite(value)) return;
        metric.observe(labels ?? {}, value);
        this.#keep(spec, metric, labels);
      },
      remove: (labels) => this.#remove(spec, labels),
    };
  }

  #keep<Label extends string>(
    { name, labels: names = [] }: MetricSpec<Label>,
    metric: PromMetric,
    labels?: MetricLabels<Label>,
  ): void {
    if (labels === undefined) return;
    const { series } = this.#recent.getOrInsertComputed(name, () => ({ metric, series: new Map() }));
    const key = keyOf(names, labels);
    series.delete(key);
    series.set(key, { labels, scrapes: Number.POSITIVE_INFINITY });
    const [oldest] = series;
    if (series.size <= maxSeries || oldest === undefined) return;
    series.delete(oldest[0]);
    metric.remove({ ...oldest[1].labels });
  }

  #remove<Label extends string>({ name, labels: names = [] }: MetricSpec<Label>, labels: MetricLabels<Label>): void {
    const one = this.#recent.get(name)?.series.get(keyOf(names, labels));
    if (one !== undefined) one.scrapes = lastScrapes;
  }

  #gauge<Label extends string>(spec: MetricSpec<Label>, scope: Scope): Gauge<Label> {
    const names: readonly Label[] = spec.labels ?? [];
    const metric = this.#register(
      { type: "gauge", labels: names, buckets: [] },
      spec,
      (config) => new PromGauge({ ...config, collect: () => this.#gauges.get(spec.name)?.show() }),
      (known) => known instanceof PromGauge,
    );
    // A gauge without labels would show 0 at once.
    if (!scope.started && !this.#gauges.has(spec.name)) metric.remove({});
    const gauge = this.#gauges.getOrInsertComputed(spec.name, () => new GaugeSeries(metric));
    // At the start, what it refuses would be an error after the generation before has ended.
    const trial = scope.started
      ? undefined
      : new PromGauge({ name: spec.name, help: spec.help, labelNames: [...names], registers: [] });
    const set = (value: number, labels?: MetricLabels<Label>): void => {
      if (scope.ended) return;
      const values: Partial<MetricLabels<Label>> = labels ?? {};
      const key = keyOf(names, values);
      if (scope.started) gauge.set(key, values, value, scope.id);
      else {
        trial?.set({ ...values }, value);
        scope.waiting.set(`${spec.name} ${key}`, () => set(value, labels));
      }
    };
    return { set };
  }

  #register<M extends PromMetric>(
    shape: Shape,
    spec: MetricSpec<string>,
    make: (config: { name: string; help: string; labelNames: string[]; registers: Registry[] }) => M,
    is: (known: PromMetric) => known is M,
  ): M {
    const known = this.#known.get(spec.name);
    if (known !== undefined) {
      if (describe(known.shape) === describe(shape) && is(known.metric)) return known.metric;
      throw new CodedError(
        "MetricClash",
        `metric "${spec.name}" is already ${describe(known.shape)}; it cannot be ${describe(shape)} as well`,
      );
    }
    try {
      const metric = make({
        name: spec.name,
        help: spec.help,
        labelNames: [...shape.labels],
        registers: [this.#registry],
      });
      this.#known.set(spec.name, { shape, metric });
      return metric;
    } catch (error) {
      throw new CodedError("InvalidMetric", `metric "${spec.name}": ${messageOf(error)}`, { cause: error });
    }
  }
}

const describe = ({ type, labels, buckets }: Shape): string =>
  [
    `a ${type}`,
    labels.length === 0 ? "without labels" : `with the labels ${labels.toSorted().join(", ")}`,
    ...(type === "histogram" ? [`and the buckets ${buckets.join(" ")}`] : []),
  ].join(" ");
