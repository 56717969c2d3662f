import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";

import { parse } from "yaml";

import { buildTimeoutMs, describeUnlessMissing, noGo } from "./needs.ts";
import { askPrometheus } from "./promql.ts";

setDefaultTimeout(buildTimeoutMs);

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

const root = join(import.meta.dir, "..", "..");
const file: { readonly groups: readonly { readonly rules: readonly Rule[] }[] } = parse(
  await Bun.file(join(root, "deploy", "chart", "files", "alerts.yaml")).text(),
);
const rules = file.groups.flatMap((group) => group.rules);
const exprOf = new Map(rules.map(({ alert, expr }) => [alert, expr]));

const minutes = 6 * 60;
const own = 'job="cloud-controller-host",instance="a"';

/** A histogram of delays: none for half an hour, then so many below the objective, so many in all. */
function delays(name: string, below: number, all: number, edge = "64", labels = own): readonly string[] {
  const then = (count: number): string => `0+0x30 ${count}+0x${minutes}`;
  return [
    `${name}_bucket{${labels},le="${edge}"} ${then(below)}`,
    `${name}_bucket{${labels},le="+Inf"} ${then(all)}`,
    `${name}_count{${labels}} ${then(all)}`,
  ];
}

const steady = (series: string, value: number): string => `${series} ${value}+0x${minutes}`;
const rising = (series: string, each: number): string => `${series} 0+${each}x${minutes}`;

interface Case {
  readonly fires: readonly string[];
  readonly silent: readonly string[];
}

const reconcileSeconds = "cloudprovider_azure_service_reconcile_duration_seconds";
const changed = `${own},result="changed"`;
const everyQuarter = Array.from({ length: minutes / 15 }, (_, errors) => `${errors}+0x14`).join(" ");

const objective = (name: string): Case => ({ fires: delays(name, 98, 100), silent: delays(name, 99, 100) });

const cases: Readonly<Record<string, Case>> = {
  CloudNodeTaintRemovalSlow: objective("node_controller_cloud_provider_taint_removal_delay_seconds"),
  CloudNodeInitialSyncSlow: objective("node_controller_initial_node_sync_delay_seconds"),
  CloudLoadBalancerHostUpdateSlow: objective("service_controller_update_loadbalancer_host_latency_seconds"),
  CloudNodeSyncSlow: objective("service_controller_nodesync_latency_seconds"),
  CloudNodeSyncFailing: {
    fires: [rising(`service_controller_nodesync_error_total{${own}}`, 0.1)],
    silent: [steady(`service_controller_nodesync_error_total{${own}}`, 7)],
  },
  CloudLoadBalancerSyncFailing: {
    // The slowest retry of a write that ARM rejects: one per 15 minutes.
    fires: [`cloudprovider_azure_services_reconciled_total{${own},result="error"} ${everyQuarter}`],
    silent: [
      steady(`cloudprovider_azure_services_reconciled_total{${own},result="error"}`, 7),
      rising(`cloudprovider_azure_services_reconciled_total{${own},result="changed"}`, 1),
      rising(`cloudprovider_azure_services_reconciled_total{${own},result="unchanged"}`, 1),
    ],
  },
  CloudLoadBalancerSyncSlow: {
    fires: delays(reconcileSeconds, 94, 100, "60", changed),
    silent: [
      ...delays(reconcileSeconds, 95, 100, "60", changed),
      ...delays(reconcileSeconds, 0, 100, "60", `${own},result="error"`),
    ],
  },
  CloudLimitNearlyReached: {
    fires: [
      steady(`cloudprovider_azure_limit_used_ratio{${own},limit="rulesPerInterface",resource="kubernetes"}`, 0.8),
    ],
    silent: [
      steady(`cloudprovider_azure_limit_used_ratio{${own},limit="rulesPerInterface",resource="kubernetes"}`, 0.79),
    ],
  },
  CloudRemovalsHeld: {
    fires: [steady(`cloudprovider_azure_held_removals{${own},resource="load balancer kubernetes"}`, 20)],
    silent: [steady(`cloudprovider_azure_held_removals{${own},resource="load balancer kubernetes"}`, 0)],
  },
  CloudNodeDeletionsHeld: {
    fires: [steady(`cloud_node_lifecycle_controller_held_deletions{${own}}`, 5)],
    silent: [steady(`cloud_node_lifecycle_controller_held_deletions{${own}}`, 0)],
  },
  CloudNodeInitializationFailing: {
    fires: [steady(`cloud_node_controller_failing_nodes{${own}}`, 1)],
    silent: [steady(`cloud_node_controller_failing_nodes{${own}}`, 0)],
  },
  CloudPodCIDRAllocationSuspended: {
    fires: [steady(`node_ipam_controller_allocation_suspended{${own}}`, 1)],
    silent: [steady(`node_ipam_controller_allocation_suspended{${own}}`, 0)],
  },
  CloudControllerHostWithoutLeader: {
    fires: [steady(`leader_election_master_status{${own}}`, 0)],
    silent: [
      steady(`leader_election_master_status{${own}}`, 0),
      steady('leader_election_master_status{job="cloud-controller-host",instance="b"}', 1),
    ],
  },
  CloudControllerHostDown: { fires: [steady(`up{${own}}`, 0)], silent: [steady(`up{${own}}`, 1)] },
  CloudControllerHostUnhealthy: {
    fires: [steady(`kubernetes_healthcheck{${own},name="leaderElection",type="livez"}`, 0)],
    silent: [
      steady(`kubernetes_healthcheck{${own},name="leaderElection",type="livez"}`, 1),
      steady(`kubernetes_healthcheck{${own},name="shutdown",type="readyz"}`, 0),
    ],
  },
  CloudControllerHostReloadRefused: {
    fires: [steady(`host_last_reload_successful{${own}}`, 0)],
    silent: [steady(`host_last_reload_successful{${own}}`, 1)],
  },
  CloudControllerHostControllerFailed: {
    fires: [rising(`host_controller_failures_total{${own},name="node-ipam"}`, 0.1)],
    silent: [steady(`host_controller_failures_total{${own},name="node-ipam"}`, 3)],
  },
  CloudControllerHostForbidden: {
    fires: [rising(`rest_client_requests_total{${own},code="403",method="GET",host="x"}`, 1)],
    silent: [rising(`rest_client_requests_total{${own},code="200",method="GET",host="x"}`, 1)],
  },
  CloudControllerHostStuck: {
    fires: [rising(`workqueue_longest_running_processor_seconds{${own},name="service"}`, 60)],
    silent: [steady(`workqueue_longest_running_processor_seconds{${own},name="service"}`, 30)],
  },
  CloudControllerHostAuditLogFailing: {
    fires: [steady(`host_audit_log_waiting_records{${own}}`, 1)],
    silent: [
      `host_audit_log_waiting_records{${own}} ${"0 5 ".repeat(minutes / 2)}0`,
      steady(`host_audit_log_lost_records_total{${own}}`, 7),
    ],
  },
  CloudControllerHostThrottled: {
    fires: [rising(`arm_request_throttle_counter_total{${own},resource="x"}`, 1)],
    silent: [steady(`arm_request_throttle_counter_total{${own},resource="x"}`, 9)],
  },
};

async function fires(alert: string, series: readonly string[]): Promise<boolean> {
  const [found = []] = await askPrometheus({ series, queries: [exprOf.get(alert) ?? ""], at: minutes });
  return found.length > 0;
}

describeUnlessMissing(noGo, "the alert", () => {
  for (const [alert, { fires: bad, silent: good }] of Object.entries(cases))
    test(`${alert} fires when it should, and not otherwise`, async () => {
      expect([await fires(alert, bad), await fires(alert, good)]).toEqual([true, false]);
    });

  test("CloudControllerHostAuditLogFailing fires when records are lost, although others are written again", async () => {
    const lost = rising(`host_audit_log_lost_records_total{${own}}`, 1);
    expect(await fires("CloudControllerHostAuditLogFailing", [lost])).toBe(true);
  });

  test("CloudControllerHostWithoutLeader fires when no replica can be scraped", async () => {
    expect(await fires("CloudControllerHostWithoutLeader", [steady('up{job="something-else"}', 1)])).toBe(true);
  });

  test("CloudLoadBalancerSyncSlow matches both spellings of its bucket boundary", async () => {
    expect(await fires("CloudLoadBalancerSyncSlow", delays(reconcileSeconds, 94, 100, "60.0", changed))).toBe(true);
    expect(await fires("CloudLoadBalancerSyncSlow", delays(reconcileSeconds, 94, 100, "60.5", changed))).toBe(false);
  });

  test("an objective matches both spellings of its bucket boundary", async () => {
    const name = "node_controller_initial_node_sync_delay_seconds";
    expect(await fires("CloudNodeInitialSyncSlow", delays(name, 98, 100, "64.0"))).toBe(true);
  });
});

describe("the rules", () => {
  test("each have a test that they fire", () => {
    expect(Object.keys(cases).toSorted()).toEqual(rules.map(({ alert }) => alert).toSorted());
  });

  test("have a severity, a summary and a description", () => {
    for (const { labels, annotations } of rules) {
      expect(["warning", "critical"]).toContain(labels["severity"] ?? "");
      expect(annotations["summary"]).toBeTruthy();
      expect(annotations["description"]).toBeTruthy();
    }
  });

  test("query metrics that the host and its plugins export", async () => {
    const sources = [...new Bun.Glob("{host,plugins}/**/*.ts").scanSync({ cwd: root })];
    const texts = await Promise.all(sources.map((name) => Bun.file(join(root, name)).text()));
    const known = new Set(
      texts.flatMap((text) => [...text.matchAll(/"([a-z][a-z0-9]*(?:_[a-z0-9]+)+)"/g)].map(([, name]) => name)),
    );
    const requested = rules.flatMap(({ expr }) => [...expr.matchAll(/([a-z]\w*_\w+)\{/g)].map(([, name = ""]) => name));
    const unknown = requested.filter((name) => !known.has(name.replace(/_(bucket|count)$/, "")));
    expect(unknown).toEqual([]);
  });

  test("are each on the page, with what to do about them", async () => {
    const page = await Bun.file(join(root, "deploy", "ALERTS.md")).text();
    expect(rules.filter(({ alert }) => !page.includes(`\`${alert}\``)).map(({ alert }) => alert)).toEqual([]);
    expect(page).not.toContain("missing in");
  });
});
