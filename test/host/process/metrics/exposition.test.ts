import { expect, test } from "bun:test";

import { Counter, Gauge, Histogram, Registry } from "prom-client";

import { expose } from "../../../../host/process/metrics/exposition.ts";

const openMetrics = "application/openmetrics-text";

test("the text format is the one that prom-client writes, whatever is in labels, values and help texts", async () => {
  const registry = new Registry();
  const registers = [registry];
  const odd = 'a "quoted" \\ text\nof two lines';
  const requests = new Counter({ name: "requests_total", help: odd, labelNames: ["path", "code"], registers });
  requests.inc({ path: odd, code: "200" });
  requests.inc({ path: "", code: "404" }, 1.5);
  registry.registerMetric(new Counter({ name: "unused", help: "Not used.", labelNames: ["path"], registers: [] }));
  const load = new Gauge({ name: "load", help: "Load.", labelNames: ["of"], registers });
  for (const value of [0, -0.25, 1e21, 1e-9, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])
    load.set({ of: `${value}` }, value);
  const seconds = new Histogram({ name: "seconds", help: "Time.", labelNames: ["of"], buckets: [0.1, 1], registers });
  seconds.observe({ of: odd }, 0.5);
  seconds.observe({ of: "b" }, 5);
  const { body } = await expose([registry]);
  expect(body).toBe(await registry.metrics());
  const twice = await expose([registry, new Registry(), registry]);
  expect(twice.body).toBe(`${body}\n${body}`);
  // prom-client has "Nan", which the format does not know.
  load.set({ of: "nothing" }, Number.NaN);
  expect((await expose([registry])).body).toContain('load{of="nothing"} NaN\n');
});

test.each(["text/plain", openMetrics])(
  "a scrape of the metrics of thousands of Services in %s leaves turns of the event loop to others",
  async (accept) => {
    const registry = new Registry();
    const seconds = new Histogram({
      name: "seconds",
      help: "Time.",
      labelNames: ["source"],
      buckets: Array.from({ length: 17 }, (_, index) => index),
      registers: [registry],
    });
    for (let index = 0; index < 4_000; index++) seconds.observe({ source: `default/service-${index}` }, 1);
    let [turns, over] = [0, false];
    const count = (): void => {
      turns += 1;
      if (!over) setImmediate(count);
    };
    setImmediate(count);
    const { body } = await expose([registry], accept);
    over = true;
    expect(body.match(/^seconds_bucket\{/gmu)).toHaveLength(4_000 * 18);
    expect(turns).toBeGreaterThan(5);
  },
);
