import type { PlanEvent, PlanProblem, ServiceKey } from "../model/model.ts";
import type { ServiceResult } from "../model/plan-model.ts";
import { fullKey } from "../service/annotation-rows.ts";
import { annotations } from "../service/annotations.ts";
import type { Subject } from "../service/subject.ts";
import type { Draft, PlannedService } from "./draft/draft.ts";
import { addressesOf } from "./draft/ingress.ts";
import { accessOf } from "./security-group/access.ts";

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
  const events = [
    ...(draft.events.get(subject.key) ?? []),
    ...(action === "ensure" ? ignoredMode(draft, subject) : []),
  ];
  if (action === "delete") return { settled: !draft.pending.has(subject.key), events };
  const addresses = addressesOf(draft, subject);
  if (addresses === undefined) return { settled: false, events };
  const ingress = [...addresses, ...subject.additionalAddresses].map((ip) => ({ ip }));
  return { settled: true, status: { ingress }, events };
}

/** upstream: a log line only, which the Service's owner does not see. */
function ignoredMode({ config }: Draft, { settings }: Subject): readonly PlanEvent[] {
  if (config.sku !== "standard" || settings.get(annotations.mode) === "") return [];
  const message = `annotation ${fullKey(annotations.mode)} has no effect: the cluster's load balancers have the standard SKU`;
  return [{ type: "Warning", reason: "AnnotationIgnored", message }];
}
