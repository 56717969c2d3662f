import { describe, expect, test } from "bun:test";

import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { SliMetrics } from "../../../../host/process/metrics/sli.ts";

const text = async (registry: MetricsRegistry): Promise<string> => (await registry.render()).body;
const openMetrics = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";

describe("the metrics registry", () => {
  // First: the collector of process metrics is shared and begins once.
  test("measures the longest stall of the event loop from the process's start, before any scrape", async () => {
    const registry = new MetricsRegistry({ processMetrics: true });
    await Bun.sleep(30);
    const end = performance.now() + 200;
    while (performance.now() < end);
    await Bun.sleep(30);
    const [, stall] = /^nodejs_eventloop_lag_max_seconds (\S+)$/m.exec(await text(registry)) ?? [];
    expect(Number(stall)).toBeGreaterThan(0.15);
  });

  test("returns the same metric for the same spec", async () => {
    const registry = new MetricsRegistry();
    const spec = { name: "syncs_total", help: "h", labels: ["name"] } as const;
    registry.root.counter(spec).inc({ name: "a" });
    registry.generation().counter(spec).inc({ name: "a" }, 2);
    expect(await text(registry)).toContain('syncs_total{name="a"} 3\n');
  });

  test("refuses a name that is already a metric of another type, naming it", () => {
    const { root } = new MetricsRegistry();
    root.counter({ name: "x", help: "h", labels: ["a"] });
    expect(() => root.gauge({ name: "x", help: "h", labels: ["a"] })).toThrow(/metric "x" is already a counter/);
    expect(() => root.counter({ name: "x", help: "h" })).toThrow(/with the labels a; it cannot be .* without labels/);
    root.histogram({ name: "y", help: "h", buckets: [1, 2] });
    expect(() => root.histogram({ name: "y", help: "h", buckets: [1, 3] })).toThrow(/metric "y"/);
  });

  test("refuses an invalid Prometheus name, naming it", () => {
    expect(() => new MetricsRegistry().root.counter({ name: "no spaces", help: "h" })).toThrow(/"no spaces"/);
  });

  test("removes a generation's gauges when it ends, and keeps its counters", async () => {
    const registry = new MetricsRegistry();
    const generation = registry.generation();
    generation.gauge({ name: "nodes", help: "h", labels: ["zone"] }).set(3, { zone: "1" });
    generation.gauge({ name: "ready", help: "h" }).set(1);
    generation.counter({ name: "syncs_total", help: "h" }).inc();
    generation.start();
    expect(await text(registry)).toContain("ready 1");
    generation.end();
    const body = await text(registry);
    expect(body).not.toContain('nodes{zone="1"}');
    expect(body).not.toMatch(/^ready/m);
    expect(body).toContain("syncs_total 1");
  });

  test("keeps a gauge that the next generation has set since", async () => {
    const registry = new MetricsRegistry();
    const spec = { name: "nodes", help: "h", labels: ["zone"] } as const;
    const [old, next] = [registry.generation(), registry.generation()];
    old.start();
    old.gauge(spec).set(3, { zone: "1" });
    old.gauge(spec).set(3, { zone: "2" });
    next.start();
    next.gauge(spec).set(5, { zone: "1" });
    old.gauge(spec).set(4, { zone: "1" });
    old.end();
    old.gauge(spec).set(9, { zone: "2" });
    const body = await text(registry);
    expect(body).toContain('nodes{zone="1"} 5\n');
    expect(body).not.toContain('zone="2"');
  });

  test("shows a gauge of the earlier generation again once the later one, which set it too, has ended", async () => {
    const registry = new MetricsRegistry();
    const spec = { name: "nodes", help: "h" } as const;
    const [earlier, later] = [registry.generation(), registry.generation()];
    earlier.start();
    later.start();
    later.gauge(spec).set(5);
    later.end();
    earlier.gauge(spec).set(3);
    expect(await text(registry)).toContain("nodes 3\n");
  });

  test("shows nothing of a generation that is only prepared, and takes nothing from the one that runs", async () => {
    const registry = new MetricsRegistry();
    const spec = { name: "depth", help: "h", labels: ["name"] } as const;
    const [running, prepared, refused] = [registry.generation(), registry.generation(), registry.generation()];
    running.start();
    running.gauge(spec).set(2, { name: "a" });
    for (const other of [prepared, refused]) {
      other.gauge(spec).set(0, { name: "a" });
      other.gauge({ name: "plain", help: "h" }).set(1);
    }
    running.gauge(spec).set(3, { name: "a" });
    expect(await text(registry)).toContain('depth{name="a"} 3\n');
    expect(await text(registry)).not.toMatch(/^plain/m);
    refused.end();
    expect(await text(registry)).toContain('depth{name="a"} 3\n');
    prepared.start();
    expect(await text(registry)).toMatch(/^depth\{name="a"\} 0\n(.*\n)*plain 1$/m);
    running.end();
    expect(await text(registry)).toContain('depth{name="a"} 0\n');
  });

  test("shows the latest value of a gauge at each scrape, and in its samples", async () => {
    const registry = new MetricsRegistry();
    const gauge = registry.root.gauge({ name: "depth", help: "h", labels: ["name"] });
    for (const value of [1, 2, Number.POSITIVE_INFINITY, 3, 4]) gauge.set(value, { name: "a" });
    expect(await text(registry)).toContain('depth{name="a"} 4\n');
    gauge.set(5, { name: "a" });
    expect(await registry.samples("depth")).toEqual([{ name: "depth", labels: { name: "a" }, value: 5 }]);
    expect((await registry.render("application/openmetrics-text")).body).toContain('depth{name="a"} 5\n');
  });

  test("keeps the labels of a gauge's series, whatever the caller does with its object", async () => {
    const registry = new MetricsRegistry();
    const gauge = registry.root.gauge({ name: "depth", help: "h", labels: ["name"] });
    const labels = { name: "a" };
    gauge.set(1, labels);
    labels.name = "b";
    gauge.set(2, { name: "a" });
    expect(await text(registry)).toContain('depth{name="a"} 2\n');
    expect(await text(registry)).not.toContain('name="b"');
  });

  test("refuses a gauge's value that is not a number where it is set, and shows the one before", async () => {
    const registry = new MetricsRegistry();
    const gauge = registry.root.gauge({ name: "depth", help: "h" });
    gauge.set(1);
    gauge.set(2);
    const untyped: { set(value: unknown): void } = gauge;
    expect(() => untyped.set("many")).toThrow("many");
    expect(await text(registry)).toContain("depth 2\n");
  });

  test("refuses a gauge's value or label where a prepared generation sets it, not at its start", async () => {
    const registry = new MetricsRegistry();
    const prepared = registry.generation();
    const gauge = prepared.gauge({ name: "depth", help: "h", labels: ["name"] });
    const untyped: { set(value: unknown, labels: { readonly name: string }): void } = gauge;
    const misnamed: { readonly name: string } = JSON.parse('{"zone":"a"}');
    expect(() => untyped.set("many", { name: "a" })).toThrow("many");
    expect(() => gauge.set(1, misnamed)).toThrow("zone");
    gauge.set(2, { name: "a" });
    prepared.start();
    expect(await text(registry)).toMatch(/^depth\{name="a"\} 2$/m);
  });

  test("never removes a gauge of the process", async () => {
    const registry = new MetricsRegistry();
    const generation = registry.generation();
    const spec = { name: "leader_election_master_status", help: "h", labels: ["name"] } as const;
    generation.gauge(spec).set(0, { name: "a" });
    registry.root.gauge(spec).set(1, { name: "a" });
    generation.end();
    expect(await text(registry)).toContain('leader_election_master_status{name="a"} 1\n');
  });

  test("does not grow over a hundred generations", async () => {
    const registry = new MetricsRegistry();
    let size = 0;
    for (let i = 0; i < 100; i++) {
      const generation = registry.generation();
      generation.gauge({ name: "g", help: "h", labels: ["k"] }).set(i, { k: "a" });
      generation.end();
      const { length } = await text(registry);
      if (i === 0) size = length;
      expect(length).toBe(size);
    }
  });

  test("keeps the 4,000 series of a counter and of a histogram that were used last, over all generations", async () => {
    const registry = new MetricsRegistry();
    const labels = ["kind", "source"] as const;
    const count = (source: string, order = false): void => {
      const values = order ? { source, kind: "k" } : { kind: "k", source };
      registry.generation().counter({ name: "syncs_total", help: "h", labels }).inc(values);
      registry
        .generation()
        .histogram({ name: "sync_seconds", help: "h", labels, buckets: [1] })
        .observe(0.5, values);
    };
    for (let index = 0; index < 4_000; index++) count(`s${index}`);
    count("s0", true);
    registry.root.counter({ name: "plain_total", help: "h" }).inc();
    const before = await text(registry);
    expect(before).toContain('syncs_total{kind="k",source="s1"} 1\n');
    expect(before).toContain('source="s0"} 2\n');
    count("new");
    const after = await text(registry);
    expect(after).not.toContain('source="s1"');
    for (const kept of ["s0", "s2", "new"]) expect(after).toContain(`source="${kept}"`);
    expect(after.match(/^syncs_total\{/gm)).toHaveLength(4_000);
    expect(after.match(/^sync_seconds_count\{/gm)).toHaveLength(4_000);
    expect(after).toContain("plain_total 1\n");
    // One that was removed makes room for another.
    registry.root.counter({ name: "syncs_total", help: "h", labels }).remove?.({ kind: "k", source: "new" });
    for (let scrape = 0; scrape < 4; scrape++) await text(registry);
    count("newer");
    expect(await text(registry)).toContain('syncs_total{kind="k",source="s2"} 1\n');
  });

  test("removes the series of an object that is gone with the fifth scrape, unless it gets a new value", async () => {
    const registry = new MetricsRegistry();
    const counter = registry.root.counter({ name: "c_total", help: "h", labels: ["node"] });
    const histogram = registry.root.histogram({ name: "h_seconds", help: "h", labels: ["node"], buckets: [1] });
    for (const node of ["gone", "back", "other"]) {
      counter.inc({ node });
      histogram.observe(0.5, { node });
    }
    for (const node of ["gone", "back", "unknown"])
      for (const metric of [counter, histogram]) metric.remove?.({ node });
    const scrapes: string[] = [];
    for (let scrape = 0; scrape < 3; scrape++) scrapes.push(await text(registry));
    counter.inc({ node: "back" });
    for (let scrape = 0; scrape < 3; scrape++) scrapes.push(await text(registry));
    for (let scrape = 0; scrape < 20; scrape++) await text(registry);
    expect(await text(registry)).toContain('h_seconds_count{node="other"} 1\n');
    const shows = (name: string, node: string) => scrapes.map((one) => one.includes(`${name}{node="${node}"}`));
    for (const name of ["c_total", "h_seconds_count"]) {
      expect(shows(name, "gone")).toEqual([true, true, true, true, false, false]);
      expect(shows(name, "other")).toEqual(scrapes.map(() => true));
      expect(shows(name, "unknown")).toEqual(scrapes.map(() => false));
    }
    expect(shows("c_total", "back")).toEqual(scrapes.map(() => true));
    expect(shows("h_seconds_count", "back")).toEqual([true, true, true, true, false, false]);
    expect(scrapes[5]).toContain('c_total{node="back"} 2\n');
    counter.inc({ node: "gone" });
    expect(await text(registry)).toContain('c_total{node="gone"} 1\n');
  });

  test("drops values that a counter or histogram cannot hold, instead of throwing at the controller", async () => {
    const registry = new MetricsRegistry();
    registry.root.counter({ name: "c_total", help: "h" }).inc({}, -1);
    registry.root.histogram({ name: "h", help: "h", buckets: [1] }).observe(Number.NaN);
    expect(await text(registry)).toContain("c_total 0");
  });

  test("infinite values have Prometheus' names in both formats, and an odd preference is none", async () => {
    const registry = new MetricsRegistry();
    registry.root.gauge({ name: "up", help: "h" }).set(Number.POSITIVE_INFINITY);
    registry.root.gauge({ name: "down", help: "h" }).set(Number.NEGATIVE_INFINITY);
    for (const accept of ["", openMetrics]) {
      const { body } = await registry.render(accept);
      expect(body).toContain("up +Inf\n");
      expect(body).toContain("down -Inf\n");
    }
    const odd = "application/openmetrics-text;q=much";
    expect((await registry.render(odd)).contentType).toStartWith("text/plain");
  });

  test("serves OpenMetrics if preferred, with the same names as the text format", async () => {
    const registry = new MetricsRegistry();
    registry.root.counter({ name: "a_total", help: "h" }).inc();
    registry.root.counter({ name: "op_failure_count", help: 'say "h"', labels: ["k"] }).inc({ k: 'a"b\n' });
    registry.root.histogram({ name: "d", help: "h", buckets: [0.1] }).observe(1);
    const before = await text(registry);
    const { body, contentType } = await registry.render(openMetrics);
    expect(contentType).toStartWith("application/openmetrics-text");
    expect(body).toContain("# TYPE a counter\na_total 1\n");
    // As client_golang: a counter without the suffix that OpenMetrics requires keeps its name, and has no known type.
    expect(body).toContain("# TYPE op_failure_count unknown\n");
    expect(body).toContain(String.raw`op_failure_count{k="a\"b\n"} 1` + "\n");
    expect(body).toContain('d_bucket{le="+Inf"} 1\n');
    expect(body).toEndWith("# EOF\n");
    expect(await text(registry)).toBe(before);
    expect(before).toContain("\na_total 1");
    expect((await registry.render("text/plain, application/openmetrics-text;q=0.1")).contentType).toStartWith("text");
  });

  test("shows process metrics once, with any number of registries", async () => {
    for (const registry of [1, 2].map(() => new MetricsRegistry({ processMetrics: true }))) {
      const body = await text(registry);
      expect(body.match(/^process_resident_memory_bytes /gm)).toHaveLength(1);
      expect(body).toContain("nodejs_eventloop_lag_seconds");
      // It counts every object of the heap at each scrape.
      expect(body).not.toContain("nodejs_heap_space_size");
    }
  });
});

describe("the service-level metrics", () => {
  test("count the runs of each check and show its last result", async () => {
    const slis = new SliMetrics(1000);
    slis.record({ name: "ping", endpoint: "healthz", ok: true });
    slis.record({ name: "ping", endpoint: "healthz", ok: false });
    const { body } = await slis.render();
    expect(body).toContain('kubernetes_healthcheck{name="ping",type="healthz"} 0\n');
    expect(body).toContain('kubernetes_healthchecks_total{name="ping",type="healthz",status="success"} 1\n');
    expect(body).toContain('kubernetes_healthchecks_total{name="ping",type="healthz",status="error"} 1\n');
    expect(body).toContain("process_start_time_seconds 1\n");
  });

  test("are empty after a reset", async () => {
    const slis = new SliMetrics();
    slis.record({ name: "ping", endpoint: "healthz", ok: true });
    slis.reset();
    expect((await slis.render()).body).not.toContain("ping");
  });
});

test("samples are the current values of a metric by its labels, and of a histogram its sum and count", async () => {
  const registry = new MetricsRegistry();
  expect(await registry.samples("unknown")).toEqual([]);
  registry.root.gauge({ name: "depth", help: "h", labels: ["name"] }).set(3, { name: "a" });
  expect(await registry.samples("depth")).toEqual([{ name: "depth", labels: { name: "a" }, value: 3 }]);
  const seconds = registry.root.histogram({ name: "seconds", help: "h", labels: ["name"], buckets: [1, 2] });
  for (const value of [0.5, 1.5]) seconds.observe(value, { name: "b" });
  expect(await registry.samples("seconds")).toEqual([
    { name: "seconds_sum", labels: { name: "b" }, value: 2 },
    { name: "seconds_count", labels: { name: "b" }, value: 2 },
  ]);
});
