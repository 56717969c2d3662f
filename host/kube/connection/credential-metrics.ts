import type { Metrics } from "cloud-controller-host/sdk";

/** What came of looking at the CA's file again, in client-go's words. */
export type CaRead =
  | [result: "success", reason: "unchanged" | "updated"]
  | [result: "failure", reason: "read_error" | "empty" | "ca_parse_error"];

/** How a call of a credential plugin ended, in client-go's words. */
export type PluginCall = "no_error" | "plugin_execution_error" | "plugin_not_found_error" | "client_internal_error";

/** Told of credentials as they are read. */
export interface CredentialObserver {
  caRead(...outcome: CaRead): void;
  /** `code` is the plugin's exit status, 1 where it has none. */
  pluginCalled(code: number, outcome: PluginCall): void;
  /** When the client certificate of a plugin ends, in milliseconds since 1970; `plugin` tells one from another. */
  pluginCertificate(plugin: object, endsAt: number): void;
  /** How old a plugin's certificate was when another took its place, in milliseconds. */
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
    help: "How often the CA of the API server was read again from its file, by result and reason.",
    labels: ["result", "reason"],
  });
  const calls = metrics.counter({
    name: "rest_client_exec_plugin_call_total",
    help: "Calls of credential plugins, by exit status and by what went wrong.",
    labels: ["code", "call_status"],
  });
  const ttl = metrics.gauge({
    name: "rest_client_exec_plugin_ttl_seconds",
    help: "How long the client certificate of a credential plugin is still valid, as of its last reading; the shortest of several. +Inf without one.",
  });
  const age = metrics.histogram({
    name: "rest_client_exec_plugin_certificate_rotation_age",
    help: "How old, in seconds, a credential plugin's client certificate was when another took its place.",
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
