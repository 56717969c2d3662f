import { keyOf, type Service } from "cloud-controller-host/sdk";

import type { RangeSet } from "../model/addresses.ts";
import type { Observed, PlanProblem, ServiceIntent, ServiceKey } from "../model/model.ts";
import { oncePer } from "../model/once-per.ts";
import type { Plan, ServiceResult } from "../model/plan-model.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { readSubject } from "../service/subject.ts";
import { draftBalancers, planBalancers } from "./balancer/balancers.ts";
import { retireBasic } from "./balancer/basic.ts";
import { backendAddresses, planPools } from "./balancer/members.ts";
import { useRefusedPools } from "./balancer/refused-pools.ts";
import type { Draft, PlannedService } from "./draft/draft.ts";
import { addressesOf, draftAddresses } from "./draft/ingress.ts";
import { checkLimits } from "./limit-checks.ts";
import { planPrivateLinks } from "./private-link/plan.ts";
import { draftPublicIPs, planPublicIPs } from "./public-ip/plan.ts";
import { repeatFailed } from "./repeat-failed.ts";
import { planSecurityGroup } from "./security-group/plan.ts";
import { clusterRanges, ownAddressProblems, problemsOf } from "./validate.ts";
import { serviceWarnings } from "./warnings.ts";
import { type PlannedResources, stagesOf } from "./writes.ts";

/**
 * Computes what must be written to bring Services to their desired state. Pure: the same arguments give
 * the same plan, in whatever order the Services are given, and nothing is changed in place.
 *
 * Some values exist only after a write: the address of a new public IP, a private address that Azure chooses. Security
 * rules wait for them: apply the plan, observe, and plan the same Services again until every Service is settled and nothing
 * is left to write. Two rounds are enough for a new Service, three where a public IP is created again, or where nodes move
 * to a load balancer that the Service creates.
 *
 * A Service with a problem contributes nothing but the nodes of a pool of its own: the others are planned as if it were
 * not there.
 */
export function plan(intents: readonly ServiceIntent[], observed: Observed, config: PlannerConfig): Plan {
  const problems = new Map<ServiceKey, PlanProblem>();
  let ranges: RangeSet | undefined;
  const ownRanges = (): RangeSet => (ranges ??= clusterRanges(observed));
  let services = intents.toSorted(byAge).flatMap((intent) => read(intent, ownRanges, config, problems));
  for (;;) {
    const draft = draftOf(services, observed, config);
    const refused = intents.filter(({ service, action }) => action === "ensure" && problems.has(keyOf(service)));
    const resources = planResources(draft, refused);
    if (draft.problems.size === 0) {
      const stages = stagesOf(draft, resources);
      return { stages, results: resultsOf(draft, problems, intents), nodeEvents: draft.nodeEvents };
    }
    for (const [key, problem] of draft.problems) problems.set(key, problem);
    services = services.filter(({ subject }) => !draft.problems.has(subject.key));
  }
}

/** Older Services come first: they keep ports and priorities. */
const byAge = ({ service: left }: ServiceIntent, { service: right }: ServiceIntent): number =>
  ageOf(left) < ageOf(right) ? -1 : 1;

const ageOf = oncePer(({ metadata }: Service): string =>
  [metadata?.creationTimestamp ?? "", metadata?.namespace, metadata?.name, metadata?.uid].join("\0"),
);

const serviceGateway =
  "cloud config: serviceGatewayEnabled: load balancers of service gateway mode are not supported; nothing is created or deleted";

/** Invalid annotations never block a deletion: they are treated as absent. */
function read(
  intent: ServiceIntent,
  ownRanges: () => RangeSet,
  config: PlannerConfig,
  rejected: Map<ServiceKey, PlanProblem>,
): readonly PlannedService[] {
  const { subject, problems } = readSubject(intent.service, config);
  if (config.serviceGateway) {
    rejected.set(subject.key, { code: "ServiceGatewayUnsupported", messages: [serviceGateway] });
    return [];
  }
  const { action, nodes, failed } = intent;
  const planned = { subject, action, nodes, failed };
  if (action === "delete") return [planned];
  const lists = [problems, problemsOf(subject, config), ownAddressProblems(subject, ownRanges)];
  if (lists.every(({ length }) => length === 0)) return [planned];
  rejected.set(subject.key, { code: "InvalidService", messages: lists.flat() });
  return [];
}

const draftOf = (services: readonly PlannedService[], observed: Observed, config: PlannerConfig): Draft => ({
  observed,
  config,
  services,
  balancers: new Map(),
  publicIPs: new Map(),
  linkDeletions: new Map(),
  retired: new Set(),
  targets: new Map(),
  nodeEvents: new Map(),
  pools: new Map(),
  frontends: new Map(),
  addresses: new Map(),
  events: new Map(),
  problems: new Map(),
  pending: new Set(),
});

function planResources(draft: Draft, refused: readonly ServiceIntent[]): PlannedResources {
  draftBalancers(draft);
  retireBasic(draft);
  draftPublicIPs(draft);
  planBalancers(draft, planPublicIPs(draft));
  draftAddresses(draft);
  useRefusedPools(draft, refused);
  const pools = planPools(draft);
  const securityGroup = planSecurityGroup(draft, (subject) => backendAddresses(draft, pools, subject));
  repeatFailed(draft, securityGroup);
  const links = planPrivateLinks(draft);
  checkLimits(draft, links);
  return { pools, securityGroup, ...links };
}

/** One result per Service. */
function resultsOf(
  draft: Draft,
  problems: ReadonlyMap<ServiceKey, PlanProblem>,
  intents: readonly ServiceIntent[],
): ReadonlyMap<ServiceKey, ServiceResult> {
  const warnings = new Map(
    intents.flatMap(({ service, action }) =>
      action === "delete"
        ? []
        : [[keyOf(service), serviceWarnings(service, draft.config).map(({ message }) => message)] as const],
    ),
  );
  const results = new Map<ServiceKey, ServiceResult>();
  for (const [key, problem] of problems)
    results.set(key, { problem, settled: true, events: [], warnings: warnings.get(key) ?? [] });
  for (const planned of draft.services) {
    const { key } = planned.subject;
    results.set(key, { ...outcome(draft, planned), warnings: warnings.get(key) ?? [] });
  }
  return results;
}

/** Source: upstream `getServiceLoadBalancerStatus`. */
function outcome(draft: Draft, { subject, action }: PlannedService): Omit<ServiceResult, "warnings"> {
  const events = draft.events.get(subject.key) ?? [];
  if (action === "delete") return { settled: true, events };
  const addresses = addressesOf(draft, subject);
  if (addresses === undefined) return { settled: false, events };
  const ingress = [...addresses, ...subject.additionalAddresses].map((ip) => ({ ip }));
  return { settled: true, status: { ingress }, events };
}
