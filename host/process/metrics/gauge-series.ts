import type { Gauge } from "prom-client";

interface Series {
  readonly labels: object;
  owner: number;
  value: number;
  isShown: boolean;
}

/**
 * The series of one gauge, by their label values. The newest owner has a series. prom-client gets a new value when it is
 * asked for it: an informer sets two gauges with every event, and prom-client hashes their labels each time.
 */
export class GaugeSeries {
  readonly #metric: Gauge;
  readonly #series = new Map<string, Series>();

  constructor(metric: Gauge) {
    this.#metric = metric;
  }

  /** Throws where prom-client refuses the labels or the value. */
  set(key: string, labels: object, value: number, owner: number): void {
    const known = this.#series.get(key);
    if (known !== undefined && known.owner > owner) return;
    if (known !== undefined && Number.isFinite(value)) {
      known.owner = owner;
      known.value = value;
      known.isShown = false;
      return;
    }
    // What prom-client refuses is an error here, not at the next scrape.
    this.#metric.set({ ...labels }, value);
    this.#series.set(key, { labels: { ...labels }, owner, value, isShown: true });
  }

  /** Gives prom-client the values that it does not have. */
  show(): void {
    for (const series of this.#series.values()) {
      if (!series.isShown) this.#metric.set({ ...series.labels }, series.value);
      series.isShown = true;
    }
  }

  removeOf(owner: number): void {
    for (const [key, series] of this.#series) {
      if (series.owner !== owner) continue;
      this.#metric.remove({ ...series.labels });
      this.#series.delete(key);
    }
  }
}
