import { join } from "node:path";

import { parse } from "yaml";

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

/** The metric that an alert watches, and what to do about it. */
const advice: Readonly<Record<string, readonly [metric: string, remedy: string]>> = {
  CloudNodeTaintRemovalSlow: [
    "`node_controller_cloud_provider_taint_removal_delay_seconds`",
    "Many nodes at once? Raise `--concurrent-node-syncs` and `--kube-api-qps`. Otherwise see `CloudControllerHostThrottled` and `arm_request_duration_seconds`: Azure is slow",
  ],
  CloudNodeInitialSyncSlow: ["`node_controller_initial_node_sync_delay_seconds`", "the same"],
  CloudLoadBalancerHostUpdateSlow: [
    "`service_controller_update_loadbalancer_host_latency_seconds`",
    "See `arm_request_duration_seconds` for load balancers, and `CloudControllerHostThrottled`",
  ],
  CloudNodeSyncSlow: [
    "`service_controller_nodesync_latency_seconds`",
    "Raise `--concurrent-service-syncs`: changes of one load balancer are merged into one write",
  ],
  CloudNodeSyncFailing: [
    "`service_controller_nodesync_error_total`",
    "Events of the Services (`UpdateLoadBalancerFailed`) show what Azure rejects",
  ],
  CloudLoadBalancerSyncFailing: [
    "`cloudprovider_azure_services_reconciled_total` by result",
    "`kubectl get events -A --field-selector reason=SyncLoadBalancerFailed` has ARM's code and message; the condition `LoadBalancerReady` of the Service has the time of the next retry",
  ],
  CloudLoadBalancerSyncSlow: [
    "`cloudprovider_azure_service_reconcile_duration_seconds`",
    "See `arm_request_duration_seconds` for load balancers, and `CloudControllerHostThrottled`. Raise `--concurrent-service-syncs`: changes of one load balancer are merged into one write",
  ],
  CloudNodeDeletionsHeld: [
    "`cloud_node_lifecycle_controller_held_deletions`",
    "Were the instances really deleted? If not, check subscription, resource group and identity in the cloud config. If so, delete the nodes by hand or raise the limits that the event names",
  ],
  CloudRemovalsHeld: [
    "`cloudprovider_azure_held_removals`",
    "Were the Services, nodes or settings really removed? `warnings` in `/statusz` and the event `RemovalHeld` say what would go. If not, look for an API server or Resource Manager that answers with shortened lists, and for a changed `clusterName` or `loadBalancerName`. If so, run the command in the event: it confirms exactly this plan",
  ],
  CloudPodCIDRAllocationSuspended: [
    "`node_ipam_controller_allocation_suspended`",
    "`warnings` in `/statusz` names the other allocator, or why the nodes cannot be listed. Run only one allocator: `kube-controller-manager --allocate-node-cidrs=false`",
  ],
  CloudControllerHostWithoutLeader: [
    "`leader_election_master_status`",
    "Are the Pods running? Who holds the Lease? See [no leader](OPERATE.md#troubleshoot)",
  ],
  CloudControllerHostDown: [
    "`up`",
    "`kubectl -n kube-system describe pod`; the last line of `kubectl logs --previous`",
  ],
  CloudControllerHostUnhealthy: [
    "`kubernetes_healthcheck` of `/livez`",
    "The lease's watchdog: the process hangs, and kubelet restarts it. If it recurs, memory or CPU is short",
  ],
  CloudControllerHostReloadRefused: [
    "`host_last_reload_successful`",
    "`lastRefusal` in `/statusz` names the key or the file. Correct it; the next change is loaded automatically",
  ],
  CloudControllerHostControllerFailed: [
    "`host_controller_failures_total`",
    "The log line `Controller failed` of that controller, and the event; after a reload the previous generation runs again",
  ],
  CloudControllerHostForbidden: [
    "`rest_client_requests_total` by code",
    "`rbac.create: false`? Plugins without `plugins.rules`? `cloud-controller-host rbac` prints the required roles",
  ],
  CloudControllerHostStuck: [
    "`workqueue_longest_running_processor_seconds`",
    "Which queue? Often a long-running Azure operation, visible on its resource in the portal. [Traces](README.md#optional-features) show the request",
  ],
  CloudControllerHostThrottled: [
    "`arm_request_throttle_counter_total`",
    "Which other clients use the subscription? Raise the cache times in the cloud config (`…CacheTTLInSeconds`)",
  ],
};

/** Every alert of the chart. */
export async function alerts(): Promise<string> {
  const file = join(import.meta.dir, "../../deploy/chart/files/alerts.yaml");
  const { groups }: Rules = parse(await Bun.file(file).text());
  const plain = (text: string): string =>
    text.replaceAll(/\{\{ *\$value[^}]*\}\}/g, "N").replaceAll(/\{\{ *\$labels\.(\w+) *\}\}/g, "`$1`");
  const sections = groups.map(({ name, rules }) => {
    const rows = rules.map(({ alert, labels, annotations, ...rule }) => [
      code(alert),
      labels.severity,
      rule.for ?? "",
      `${annotations.summary}. ${plain(annotations.description)}`,
      ...(advice[alert] ?? [`missing in ${import.meta.file}`]),
    ]);
    return `\n## ${name}\n\n${table(["Alert", "Severity", "For", "Meaning", "Metric", "What to do"], rows)}\n`;
  });
  return `${heading("Alerts", "`chart/files/alerts.yaml`")}${sections.join("")}`;
}
