import { expect, setDefaultTimeout, test } from "bun:test";

import { joinNodes } from "../kit/azure.ts";
import { SandboxLab } from "./sandbox-lab.ts";

setDefaultTimeout(120_000);

interface Row {
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly buckets?: readonly number[];
  /** It has no series until something happens that does not happen here. */
  readonly idle?: true;
}

const gauge = (...labels: readonly string[]): Row => ({ type: "gauge", labels });
const counter = (...labels: readonly string[]): Row => ({ type: "counter", labels });
const idle = (row: Row): Row => ({ ...row, idle: true });
const histogram = (buckets: readonly number[], ...labels: readonly string[]): Row => ({
  type: "histogram",
  labels,
  buckets,
});
/** `count` buckets from `first` on, each `factor` times the one before. */
const exponential = (first: number, factor: number, count: number): readonly number[] =>
  Array.from({ length: count }, (_, power) => first * factor ** power);

const [hour, day] = [3600, 86_400];
const requestSeconds = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
const requestBytes = [64, 256, 512, ...[1, 4, 16, 64, 256, 1024, 4096, 16_384].map((kibi) => kibi * 1024)];
const reviewSeconds = [0.25, 0.5, 0.7, 1, 1.5, 3, 5, 10];
const queueSeconds = exponential(1e-8, 10, 10);
const accessSeconds = exponential(0.001, 2, 15);
const informer = ["name", "group", "version", "resource"];

/** The Go binaries' metrics of this layer, as their dashboards ask for them. */
const table: Readonly<Record<string, Row>> = {
  running_managed_controllers: gauge("name", "manager"),
  leader_election_master_status: gauge("name"),
  leader_election_slowpath_total: idle(counter("name")),
  workqueue_depth: gauge("name"),
  workqueue_unfinished_work_seconds: gauge("name"),
  workqueue_longest_running_processor_seconds: gauge("name"),
  workqueue_adds_total: counter("name"),
  workqueue_retries_total: idle(counter("name")),
  workqueue_queue_duration_seconds: histogram(queueSeconds, "name"),
  workqueue_work_duration_seconds: histogram(queueSeconds, "name"),
  rest_client_request_duration_seconds: histogram(requestSeconds, "verb", "host"),
  rest_client_rate_limiter_duration_seconds: histogram(requestSeconds, "verb", "host"),
  rest_client_request_size_bytes: histogram(requestBytes, "verb", "host"),
  rest_client_response_size_bytes: histogram(requestBytes, "verb", "host"),
  rest_client_requests_total: counter("code", "method", "host"),
  rest_client_request_retries_total: idle(counter("code", "verb", "host")),
  rest_client_transport_cache_entries: gauge(),
  rest_client_transport_create_calls_total: counter("result"),
  rest_client_transport_ca_reload_total: idle(counter("result", "reason")),
  rest_client_exec_plugin_ttl_seconds: gauge(),
  rest_client_exec_plugin_call_total: idle(counter("code", "call_status")),
  rest_client_exec_plugin_certificate_rotation_age: histogram([
    600,
    1800,
    hour,
    4 * hour,
    ...[1, 7, 30, 90, 180, 360, 1440].map((days) => days * day),
  ]),
  informer_queued_items: gauge(...informer),
  informer_store_resource_version: gauge(...informer),
  informer_processing_latency_seconds: histogram(
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    ...informer,
  ),
  authentication_attempts: counter("result"),
  authenticated_user_requests: counter("username"),
  authentication_duration_seconds: histogram(accessSeconds, "result"),
  authorization_attempts_total: counter("result"),
  authorization_duration_seconds: histogram(accessSeconds, "result"),
  authentication_token_cache_request_total: counter("status"),
  authentication_token_cache_fetch_total: counter("status"),
  authentication_token_cache_active_fetch_count: gauge("status"),
  authentication_token_cache_request_duration_seconds: histogram(accessSeconds, "status"),
  apiserver_delegated_authn_request_total: counter("code"),
  apiserver_delegated_authz_request_total: counter("code"),
  apiserver_delegated_authn_request_duration_seconds: histogram(reviewSeconds, "code"),
  apiserver_delegated_authz_request_duration_seconds: histogram(reviewSeconds, "code"),
  apiserver_client_certificate_expiration_seconds: histogram([
    0,
    hour / 2,
    ...[1, 2, 6, 12].map((hours) => hours * hour),
    ...[1, 2, 4, 7, 30, 90, 180, 360].map((days) => days * day),
  ]),
  process_cpu_seconds_total: counter(),
  process_max_fds: gauge(),
  process_open_fds: gauge(),
  process_resident_memory_bytes: gauge(),
  process_start_time_seconds: gauge(),
  process_virtual_memory_bytes: gauge(),
};

const sliTable: Readonly<Record<string, Row>> = {
  kubernetes_healthcheck: gauge("name", "type"),
  kubernetes_healthchecks_total: counter("name", "type", "status"),
  process_start_time_seconds: gauge(),
};

interface Family {
  readonly type: string;
  readonly series: readonly { readonly name: string; readonly labels: Readonly<Record<string, string>> }[];
}

/** Reads the text format. */
function familiesOf(text: string): ReadonlyMap<string, Family> {
  const families = new Map<string, { type: string; series: Family["series"][number][] }>();
  let current = "";
  for (const line of text.split("\n")) {
    const [, name, type] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? [];
    if (name !== undefined && type !== undefined) families.set((current = name), { type, series: [] });
    const [, sample, list = ""] = /^(\w+)(?:\{(.*)\})? \S+$/.exec(line) ?? [];
    if (sample === undefined) continue;
    const labels = Object.fromEntries(
      [...list.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, value]) => [key, value]),
    );
    families.get(current)?.series.push({ name: sample, labels });
  }
  return families;
}

/** What is wrong with how a metric is served, for a person to read. */
function deviations(name: string, row: Row, family: Family | undefined): readonly string[] {
  if (family === undefined) return [`${name} is not served`];
  if (family.type !== row.type) return [`${name} is a ${family.type}, not a ${row.type}`];
  if (family.series.length === 0) return row.idle === true ? [] : [`${name} has no series`];
  const labels = new Set(
    family.series.map((one) =>
      Object.keys(one.labels)
        .filter((key) => key !== "le")
        .toSorted()
        .join(),
    ),
  );
  const wanted = row.labels.toSorted().join();
  const bounds = family.series.filter((one) => one.name === `${name}_bucket`).map((one) => one.labels["le"] ?? "");
  const served = [...new Set(bounds)].join();
  const buckets = row.buckets === undefined ? "" : [...row.buckets, "+Inf"].join();
  return [
    ...[...labels].filter((list) => list !== wanted).map((list) => `${name} has the labels ${list}, not ${wanted}`),
    ...(served === buckets ? [] : [`${name} has the buckets ${served}, not ${buckets}`]),
  ];
}

const allDeviations = (rows: Readonly<Record<string, Row>>, text: string): readonly string[] => {
  const families = familiesOf(text);
  return Object.entries(rows).flatMap(([name, row]) => deviations(name, row, families.get(name)));
};

test("serves the metrics of a dashboard for the Go binary: names, types, labels and buckets", async () => {
  await using lab = await SandboxLab.open();
  await joinNodes(lab.admin, lab.azure, 2);
  const host = lab.start({
    flags: [
      "--controllers=*",
      "--configure-cloud-routes=false",
      "--authorization-always-allow-paths=/metrics,/metrics/v2,/metrics/slis,/healthz,/statusz",
    ],
  });
  await host.until("it runs", ({ running }) => running);
  await host.eventually("a queue has been worked", async () =>
    (await (await host.get("/metrics")).text()).includes("workqueue_longest_running_processor_seconds{"),
  );
  for (const path of ["/healthz", "/livez", "/readyz"]) await host.get(path);
  await host.get("/configz", { headers: { Authorization: `Bearer ${lab.api.tokens.of("bob@example.com")}` } });
  const served = await (await host.get("/metrics")).text();
  expect(allDeviations(table, served)).toEqual([]);
  expect(await (await host.get("/metrics/v2")).text()).toContain("running_managed_controllers{");
  expect(allDeviations(sliTable, await (await host.get("/metrics/slis")).text())).toEqual([]);

  const running = familiesOf(served).get("running_managed_controllers")?.series ?? [];
  const names = running.map(({ labels }) => `${labels["name"]} of ${labels["manager"]}`);
  for (const name of ["cloud-node", "cloud-node-lifecycle"])
    expect(names).toContain(`${name} of cloud-controller-manager`);
});
