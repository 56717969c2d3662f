import { describe, expect, test } from "bun:test";

import type { SecurityRule } from "@azure/arm-network";
import type { Service } from "cloud-controller-host/sdk";

import type { Observed, ServiceIntent } from "../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import type { PlannerConfig } from "../../../../plugins/azure-cloud/load-balancer/model/planner-config.ts";
import { plan } from "../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { applied } from "./applied.ts";
import { plannerConfigOf } from "./fixtures.ts";
import { meaningOf, nodesOf, observedAt, type RecordedCase, recordedCases } from "./recorded.ts";

const cases = await recordedCases();

const configOf = ({ cloudConfig, clusterName }: RecordedCase): PlannerConfig =>
  plannerConfigOf(cloudConfig, clusterName);

const intentsOf = (services: readonly Service[], recorded: RecordedCase, action: "ensure" | "delete") =>
  services.map((service): ServiceIntent => {
    const wanted = action === "ensure" && service.spec?.type === "LoadBalancer" ? "ensure" : "delete";
    return { service, action: wanted, nodes: nodesOf(recorded) };
  });

/** Plans and applies until nothing is left to write. */
function converged(batch: readonly ServiceIntent[], start: Observed, config: PlannerConfig): Observed {
  let observed = start;
  for (let round = 0; round < 5; round += 1) {
    const { stages } = plan(batch, observed, config);
    if (stages.length === 0) return observed;
    observed = applied(observed, { stages, results: new Map(), nodeEvents: new Map() });
  }
  throw new Error("no end after 5 rounds");
}

const withoutStatus = (service: Service): Service => ({ ...service, status: { loadBalancer: {} } });

/** Cases that only the conformance test compares: it runs them on the simulator, and its rules know where ours differs. */
const replayedOnly = [
  "additional-ips-deny-all",
  "basic",
  "basic-unknown-set-later",
  "cluster-name",
  "conflicting-ranges",
  "deny-all-to-external",
  "dual-pools-no-floating-ip",
  "dual-stack-from-ipv6",
  "dual-stack-ipv6-first",
  "dual-stack-new-address",
  "dual-stack-to-ipv4",
  "empty-additional-ips",
  "empty-probe-path",
  "empty-probe-port",
  "failing-while-node-excluded",
  "floating-ip-again",
  "ha-ports-bad-probe",
  "internal-dual-stack-additional-ips",
  "internal-dual-stack-from-ipv6",
  "internal-dual-stack-to-ipv6",
  "internal-to-external-refused",
  "ip-tags-changed",
  "ipv6-with-ipv4-pip-name",
  "local-own-probe",
  "many-changes",
  "missing-prefix",
  "mode-ignored",
  "multi-slb-emptied",
  "multi-slb-no-floating-ip",
  "multi-slb-nodes",
  "multi-slb-not-local",
  "named-load-balancer-nodes",
  "no-floating-ip-other-ports",
  "node-addresses-both-families",
  "node-ip-pool-dual-stack",
  "node-ip-pool-local-nodes",
  "pip-name-missing-later",
  "pip-name-removed",
  "preconfigured-pools",
  "preconfigured-pools-two-services",
  "private-link-to-external",
  "shared-ip-both-leave",
  "shared-ip-deny-all",
  "shared-ip-first-is-refused",
  "shared-ip-first-leaves",
  "shared-ip-left",
  "shared-ip-second-changes-type",
  "shared-probe-unused",
  "tags-in-any-case",
];

/** Cases that are not compared with what the Go provider wrote, and why. */
const others: Readonly<Record<string, string>> = {
  ...Object.fromEntries(replayedOnly.map((name) => [name, "replayed by the conformance test"])),
  "bad-idle-timeout": "the Go provider creates a public IP before it reads the annotation; nothing is written here",
};

const compared = cases.filter((recorded) => others[recorded.case] === undefined);

test("every case that is not compared exists", () => {
  const names = cases.map((recorded) => recorded.case);
  expect(Object.keys(others).filter((name) => !names.includes(name))).toEqual([]);
  expect(compared.length).toBeGreaterThan(40);
});

describe.each(compared.map((recorded) => [recorded.case, recorded] as const))("%s", (_name, recorded) => {
  const config = configOf(recorded);
  const created = recorded.steps["created"]?.services ?? [];

  test("plans from an empty group what the Go provider wrote", () => {
    const services = created.map(withoutStatus);
    const start = { ...observedAt(recorded, "afterDeletion"), services };
    const end = converged(intentsOf(services, recorded, "ensure"), start, config);
    expect(meaningOf(end)).toEqual(meaningOf(observedAt(recorded, "created")));
  });

  test("adopts what the Go provider wrote with an empty plan", () => {
    const { stages } = plan(intentsOf(created, recorded, "ensure"), observedAt(recorded, "created"), config);
    expect(stages).toEqual([]);
  });

  test("deletes everything that the Go provider wrote and nothing else", () => {
    const start = observedAt(recorded, "created");
    const end = converged(intentsOf(created, recorded, "delete"), start, config);
    expect(meaningOf(end)).toEqual(meaningOf(observedAt(recorded, "afterDeletion")));
  });

  const later = Object.keys(recorded.steps).filter((step) => step !== "created" && step !== "afterDeletion");
  test.each(later)("follows the Go provider: %s", (step) => {
    const index = Object.keys(recorded.steps).indexOf(step);
    const before = Object.keys(recorded.steps)[index - 1] ?? "created";
    const [first] = created;
    const start = duringStep(observedAt(recorded, before), step);
    const services = recorded.steps[step]?.services ?? [];
    const batch =
      step === "afterDeletingFirst"
        ? intentsOf(first === undefined ? [] : [first], recorded, "delete")
        : intentsOf(asBefore(services, start.services), { ...recorded, nodes: nodesDuring(recorded, step) }, "ensure");
    const changed = batch.map(({ service }) => service);
    const unchanged = start.services.filter(
      ({ metadata }) => !changed.some((one) => one.metadata?.uid === metadata?.uid),
    );
    const end = converged(batch, { ...start, services: [...unchanged, ...changed] }, config);
    const expected = observedAt(recorded, step);
    expect(meaningOf(end)).toEqual(meaningOf(step === "afterUpdate" ? withoutDeadRules(expected) : expected));
  });
});

/**
 * Without rules for addresses that nothing has any more: the Go provider leaves them until the Service is synced again,
 * because the status still shows them; here they go with the address.
 */
function withoutDeadRules(observed: Observed): Observed {
  const known = new Set(
    [
      ...observed.publicIPs.map(({ ipAddress }) => ipAddress),
      ...observed.loadBalancers.flatMap((one) => one.frontendIPConfigurations?.map((each) => each.privateIPAddress)),
    ].filter((address) => address !== undefined),
  );
  const isAlive = (rule: SecurityRule): boolean =>
    !rule.name?.startsWith("k8s-azure-lb") || known.has(rule.destinationAddressPrefix ?? "");
  const { securityGroup } = observed;
  if (securityGroup === undefined) return observed;
  return {
    ...observed,
    securityGroup: { ...securityGroup, securityRules: (securityGroup.securityRules ?? []).filter(isAlive) },
  };
}

/** The Services as they were synced: with the status of the step before. */
const asBefore = (services: readonly Service[], earlier: readonly Service[]): readonly Service[] =>
  services.map((service): Service => {
    const status = earlier.find(({ metadata }) => metadata?.uid === service.metadata?.uid)?.status;
    return status === undefined ? service : { ...service, status };
  });

const leaves = new Set(["afterExcludingNode", "afterDeletingNode"]);

/** The third node leaves and comes back. */
const nodesDuring = ({ nodes }: RecordedCase, step: string): RecordedCase["nodes"] =>
  leaves.has(step) ? nodes.slice(0, -1) : nodes;

const excluding = "node.kubernetes.io/exclude-from-external-load-balancers";

function duringStep(observed: Observed, step: string): Observed {
  const last = observed.nodes.at(-1);
  if (!leaves.has(step) || last === undefined) return observed;
  const rest = observed.nodes.slice(0, -1);
  if (step === "afterDeletingNode")
    return { ...observed, nodes: rest, deletedNodes: new Set([last.metadata?.name ?? ""]) };
  const labels = { ...last.metadata?.labels, [excluding]: "true" };
  return { ...observed, nodes: [...rest, { ...last, metadata: { ...last.metadata, labels } }] };
}
