import { accessOf } from "../security-group/access.ts";
import { annotations } from "./annotations.ts";
import type { Draft, PlannedService } from "./draft.ts";
import { addressesOf } from "./ingress.ts";
import type { PlanProblem, ServiceKey } from "./model.ts";
import type { ServiceResult } from "./plan-model.ts";

interface Notes {
  readonly problems: ReadonlyMap<ServiceKey, PlanProblem>;
  readonly warnings: ReadonlyMap<ServiceKey, readonly string[]>;
}

/** One result per Service of the batch. */
export function resultsOf(draft: Draft, { problems, warnings }: Notes): ReadonlyMap<ServiceKey, ServiceResult> {
  const results = new Map<ServiceKey, ServiceResult>();
  for (const [key, problem] of problems)
    results.set(key, { problem, settled: true, events: [], warnings: warnings.get(key) ?? [] });
  for (const planned of draft.services) {
    const { key } = planned.subject;
    results.set(key, {
      ...outcome(draft, planned),
      warnings: [...(warnings.get(key) ?? []), ...accessWarnings(planned)],
    });
  }
  return results;
}

const accessWarnings = ({ subject, action }: PlannedService): readonly string[] =>
  action === "ensure" ? accessOf(subject).warnings : [];

/** Source: upstream `getServiceLoadBalancerStatus`. */
function outcome(draft: Draft, { subject, action }: PlannedService): Omit<ServiceResult, "warnings"> {
  const events = draft.events.get(subject.key) ?? [];
  if (action === "delete") return { settled: !draft.pending.has(subject.key), events };
  const addresses = addressesOf(draft, subject);
  if (addresses === undefined) return { settled: false, events };
  const ingress = [...addresses, ...subject.settings.get(annotations.additionalPublicIPs)].map((ip) => ({ ip }));
  return { settled: true, status: { ingress }, events };
}
