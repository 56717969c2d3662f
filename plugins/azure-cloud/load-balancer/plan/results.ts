import { keyOf } from "cloud-controller-host/sdk";

import type { PlanProblem, ServiceIntent, ServiceKey } from "../model/model.ts";
import type { ServiceResult } from "../model/plan-model.ts";
import type { Draft, PlannedService } from "./draft/draft.ts";
import { addressesOf } from "./draft/ingress.ts";
import { serviceWarnings } from "./warnings.ts";

/** One result per Service. */
export function resultsOf(
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
