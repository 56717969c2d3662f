import { internalSuffix } from "../../model/names.ts";
import type { Subject } from "../../service/subject.ts";
import type { Draft } from "../draft/draft.ts";
import type { PublicIPTargets } from "../public-ip/plan.ts";
import { chooseBasic } from "./basic.ts";
import { type Choice, chooseMultiple, type Planned, remember } from "./multiple.ts";

/** Name of the load balancer of a Service. */
export function chooseBalancer(draft: Draft, subject: Subject, publicIPs: PublicIPTargets, planned: Planned): Choice {
  const choice = choose(draft, subject, publicIPs, planned);
  if ("name" in choice) remember(planned, subject, publicIPs, choice.name);
  return choice;
}

function choose(draft: Draft, subject: Subject, publicIPs: PublicIPTargets, planned: Planned): Choice {
  const { loadBalancerName, clusterName, loadBalancers, sku } = draft.config;
  if (sku === "basic") return chooseBasic(draft, subject, planned);
  if (loadBalancers.length > 0) return chooseMultiple(draft, subject, publicIPs, planned);
  return { name: (loadBalancerName || clusterName) + (subject.internal ? internalSuffix : "") };
}
