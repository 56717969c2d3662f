import type { PublicIPTargets } from "../public-ip/plan.ts";
import type { Draft } from "./draft.ts";
import { type Choice, chooseMultiple, type PlannedRules } from "./multiple.ts";
import { internalSuffix } from "./names.ts";
import type { Subject } from "./subject.ts";

/** Name of the load balancer of a Service. */
export function chooseBalancer(
  draft: Draft,
  subject: Subject,
  publicIPs: PublicIPTargets,
  planned: PlannedRules,
): Choice {
  const { loadBalancerName, clusterName, loadBalancers } = draft.config;
  if (loadBalancers.length === 0)
    return { name: (loadBalancerName || clusterName) + (subject.internal ? internalSuffix : "") };
  const choice = chooseMultiple(draft, subject, publicIPs, planned);
  if ("name" in choice) {
    const full = choice.name.toLowerCase();
    planned.set(full, (planned.get(full) ?? 0) + subject.ports.length);
  }
  return choice;
}
