import type { Metrics } from "cloud-controller-host/sdk";

/** Result of a reload of the CA file, in client-go's words. */
export type CaRead =
  | [result: "success", reason: "unchanged" | "updated"]
  | [result: "failure", reason: "read_error" | "empty" | "ca_parse_error"];

/** Result of an exec plugin call, in client-go's words. */
export type PluginCall = "no_error" | "plugin_execution_error" | "plugin_not_found_error" | "client_internal_error";

/** Receives the results of credential reads. */
export interface CredentialObserver {
  caRead(...outcome: CaRead): void;
  /** `code` is the plugin's exit status, or 1 without one. */
  pluginCalled(code: number, outcome: PluginCall): void;
  /** Expiry of a plugin's client certificate, in milliseconds since 1970; `plugin` identifies the plugin. */
  pluginCertificate(plugin: object, endsAt: number): void;
  /** Age of a plugin's certificate when it was replaced, in milliseconds. */
  pluginCertificateRotated(ageMs: number): void;
}

const [minute, hour, day] = [60, 3600, 86_400];
const ageBuckets = [
  10 * minute,
  30 * minute,
  hour,
  4 * hour,
  ...[1, 7, 30, 90, 180, 360, 1440].map((days) => days * day),
];

/** Names, labels and buckets are client-go's. upstream: component-base `metrics/prometheus/restclient`. */
export function credentialMetrics(metrics: Metrics): CredentialObserver {
  const caReads = metrics.counter({
    name: "rest_client_transport_ca_reload_total",
    help: "Number of reloads of the API server's CA file, by result and reason.",
    labels: ["result", "reason"],
  });
  const calls = metrics.counter({
    name: "rest_client_exec_plugin_call_total",
    help: "Number of calls to an exec plugin, partitioned by the type of event encountered (no_error, plugin_execution_error, plugin_not_found_error, client_internal_error) and an optional exit code.",
    labels: ["code", "call_status"],
  });
  const ttl = metrics.gauge({
    name: "rest_client_exec_plugin_ttl_seconds",
    help: "Gauge of the shortest TTL (time-to-live) of the client certificate(s) managed by the auth exec plugin, in seconds. +Inf without one.",
  });
  const age = metrics.histogram({
    name: "rest_client_exec_plugin_certificate_rotation_age",
    help: "Histogram of the number of seconds the last auth exec plugin client certificate lived before being rotated.",
    buckets: ageBuckets,
  });
  const ends = new Map<object, number>();
  ttl.set(Number.POSITIVE_INFINITY);
  return {
    caRead: (result, reason) => caReads.inc({ result, reason }),
    pluginCalled: (code, outcome) => calls.inc({ code: String(code), call_status: outcome }),
    pluginCertificate(plugin, endsAt) {
      ends.set(plugin, endsAt);
      ttl.set((Math.min(...ends.values()) - Date.now()) / 1000);
    },
    pluginCertificateRotated: (ageMs) => age.observe(ageMs / 1000),
  };
}
