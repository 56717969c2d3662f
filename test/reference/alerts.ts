import { join } from "node:path";

import { parse } from "yaml";

import { runbook } from "../../host/console/runbook.ts";
import { code, heading, table } from "./markdown.ts";

interface Rule {
  readonly alert: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string };
}

interface Rules {
  readonly groups: readonly { readonly name: string; readonly rules: readonly Rule[] }[];
}

/** The metric that an alert watches. */
const metrics: Readonly<Record<string, string>> = {
  CloudNodeTaintRemovalSlow: "`node_controller_cloud_provider_taint_removal_delay_seconds`",
  CloudNodeInitialSyncSlow: "`node_controller_initial_node_sync_delay_seconds`",
  CloudLoadBalancerHostUpdateSlow: "`service_controller_update_loadbalancer_host_latency_seconds`",
  CloudNodeSyncSlow: "`service_controller_nodesync_latency_seconds`",
  CloudNodeSyncFailing: "`service_controller_nodesync_error_total`",
  CloudLoadBalancerSyncFailing: "`cloudprovider_azure_services_reconciled_total` by result",
  CloudLoadBalancerSyncSlow: "`cloudprovider_azure_service_reconcile_duration_seconds`",
  CloudLimitNearlyReached: "`cloudprovider_azure_limit_used_ratio` by limit and resource",
  CloudNodeDeletionsHeld: "`cloud_node_lifecycle_controller_held_deletions`",
  CloudNodeInitializationFailing: "`cloud_node_controller_failing_nodes`",
  CloudRemovalsHeld: "`cloudprovider_azure_held_removals`",
  CloudPodCIDRAllocationSuspended: "`node_ipam_controller_allocation_suspended`",
  CloudControllerHostWithoutLeader: "`leader_election_master_status`",
  CloudControllerHostDown: "`up`",
  CloudControllerHostUnhealthy: "`kubernetes_healthcheck` of `/livez`",
  CloudControllerHostReloadRefused: "`host_last_reload_successful`",
  CloudControllerHostControllerFailed: "`host_controller_failures_total`",
  CloudControllerHostForbidden: "`rest_client_requests_total` by code",
  CloudControllerHostStuck: "`workqueue_longest_running_processor_seconds`",
  CloudControllerHostAuditLogFailing: "`host_audit_log_waiting_records`, `host_audit_log_lost_records_total`",
  CloudControllerHostThrottled: "`arm_request_throttle_counter_total`",
};

/** Every alert of the chart, and what the console reports without one. */
export async function alerts(): Promise<string> {
  const file = join(import.meta.dir, "../../deploy/chart/files/alerts.yaml");
  const { groups }: Rules = parse(await Bun.file(file).text());
  const plain = (text: string): string =>
    text.replaceAll(/\{\{ *\$value[^}]*\}\}/g, "N").replaceAll(/\{\{ *\$labels\.(\w+) *\}\}/g, "`$1`");
  const remedies = new Map<string, string>(Object.entries(runbook));
  const missing = `missing in ${import.meta.file}`;
  const sections = groups.map(({ name, rules }) => {
    const rows = rules.map(({ alert, labels, annotations, ...rule }) => [
      code(alert),
      labels.severity,
      rule.for ?? "",
      `${annotations.summary}. ${plain(annotations.description)}`,
      metrics[alert] ?? missing,
      remedies.get(alert) ?? missing,
    ]);
    return `\n## ${name}\n\n${table(["Alert", "Severity", "For", "Meaning", "Metric", "What to do"], rows)}\n`;
  });
  const alerting = new Set(groups.flatMap(({ rules }) => rules.map(({ alert }) => alert)));
  const others = [...remedies].filter(([name]) => !alerting.has(name)).map(([name, remedy]) => [code(name), remedy]);
  const source = "`chart/files/alerts.yaml` and `host/console/runbook.ts`";
  return `${heading("Alerts", source)}${sections.join("")}\n## Without an alert\n\nThe [console](../host/console/README.md) reports these.\n\n${table(["Row", "What to do"], others)}\n`;
}
