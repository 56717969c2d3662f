import type { Metrics } from "cloud-controller-host/sdk";

export type ReloadMetrics = ReturnType<typeof reloadMetrics>;

/** Counters start at 0: for Prometheus, a series that is first seen at 1 has not increased. */
export function reloadMetrics(root: Metrics) {
  const metrics = gaugesAndCounters(root);
  for (const result of ["success", "refused", "unchanged"]) metrics.total.inc({ result }, 0);
  const countFailuresOf = (controllers: readonly string[]): void =>
    controllers.forEach((name) => metrics.failures.inc({ name }, 0));
  return { ...metrics, countFailuresOf };
}

const gaugesAndCounters = (root: Metrics) => ({
  generation: root.gauge({ name: "host_generation", help: "Number of the running generation." }),
  skipped: root.gauge({
    name: "host_skipped_controllers",
    help: "Enabled controllers that do not run in the running generation; /statusz names them with reasons.",
  }),
  refusedPlugins: root.gauge({
    name: "host_refused_plugins",
    help: "Third-party plugins that do not run because they failed; /statusz names them with reasons.",
  }),
  total: root.counter<"result">({
    name: "host_reloads_total",
    help: "Reload requests by result: success, refused, or unchanged.",
    labels: ["result"],
  }),
  successful: root.gauge({
    name: "host_last_reload_successful",
    help: "1 if the last reload succeeded, 0 if it was refused or rolled back.",
  }),
  seconds: root.histogram({
    name: "host_reload_duration_seconds",
    help: "Duration of a reload, from when its trigger has settled to its end.",
    buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60],
  }),
  gap: root.histogram({
    name: "host_reload_gap_seconds",
    help: "Part of a reload during which no controller ran.",
    buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30],
  }),
  failures: root.counter<"name">({
    name: "host_controller_failures_total",
    help: "Controllers whose run ended before its signal was aborted.",
    labels: ["name"],
  }),
  overdue: root.counter<"name">({
    name: "host_drain_overdue_total",
    help: "Controllers that did not return within --generation-drain-timeout.",
    labels: ["name"],
  }),
});
