import { expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";

import { SandboxLab } from "../host/sandbox-lab.ts";
import { joinNodes } from "../kit/azure.ts";
import { buildTimeoutMs, describeUnlessMissing, noGo } from "./needs.ts";
import { askPrometheus } from "./promql.ts";

setDefaultTimeout(120_000);

interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}

const file = join(import.meta.dir, "..", "..", "deploy", "dashboards", "cloud-controller-host.json");
const dashboard: { readonly panels: readonly Panel[] } = JSON.parse(await Bun.file(file).text());
const queries = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({
    title,
    expr: expr.replaceAll("$job", "host").replaceAll("$__rate_interval", "5m"),
  })),
);

/** Of what does not happen in the scenario: the metric is there, a result is not. */
const withoutResult = new Set(["Host update p99", "Reloads by result", "Retries"]);

/** Every sample as a series that rises by its own value each minute, gauges included: a rate needs a change. */
const seriesOf = (exposition: string): readonly string[] =>
  exposition
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => {
      const [, name = "", labels = "", value = ""] = /^([^{\s]+)(?:\{(.*)\})? (\S+)/.exec(line) ?? [];
      const own = ['job="host"', 'instance="a"', ...(labels === "" ? [] : [labels])].join(",");
      const number = Number(value);
      return `${name}{${own}} 0+${Number.isFinite(number) && number >= 0 ? Math.ceil(number) : 0}x120`;
    });

describeUnlessMissing(noGo, "the dashboard", () => {
  test(
    "queries metrics that a host exports, in queries that Prometheus evaluates",
    async () => {
      await using lab = await SandboxLab.open();
      await joinNodes(lab.admin, lab.azure, 2);
      const flags = ["--controllers=*,-node-route-controller,-node-ipam", "--configure-cloud-routes=false"];
      const host = lab.start({ flags });
      await host.until("it runs", ({ running }) => running);
      host.signal("SIGHUP");
      const exposition = await host.eventually("nodes are initialized and health is checked", async () => {
        await host.get("/livez");
        const slis = await (await host.get("/metrics/slis")).text();
        const metrics = await (await host.get("/metrics")).text();
        const isReady =
          /taint_removal_delay_seconds_count [1-9]/.test(metrics) && slis.includes("kubernetes_healthcheck{");
        return isReady ? `${metrics}\n${slis}` : undefined;
      });
      const known = new Set([...exposition.matchAll(/^# TYPE (\S+)/gm)].map(([, name = ""]) => name));
      for (const { title, expr } of queries) {
        const names = [...expr.matchAll(/\b([a-z_]+[a-z])\{/g)].map(([, name = ""]) =>
          name.replace(/_(bucket|count|sum)$/, ""),
        );
        expect([title, names.filter((name) => !known.has(name))]).toEqual([title, []]);
        expect(names.length).toBeGreaterThan(0);
      }
      const answers = await askPrometheus({
        series: seriesOf(exposition),
        // Counted, because a quantile of nothing is NaN, which JSON does not have.
        queries: queries.map(({ expr }) => `count(${expr})`),
        at: 90,
      });
      const empty = queries.filter((_, index) => answers[index]?.length === 0).map(({ title }) => title);
      expect(empty.filter((title) => !withoutResult.has(title))).toEqual([]);
    },
    buildTimeoutMs,
  );
});
