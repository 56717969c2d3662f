import { type Node, taintsOf } from "cloud-controller-host/sdk";
import ipaddr from "ipaddr.js";

import type { Problem } from "../access/status.ts";
import { equal } from "../json.ts";
import { duplicate, invalidValue, labelValue, mayNot, qualifiedName, required, unsupported } from "../validation.ts";

const effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/** Validation of a Node. Source: kubernetes `pkg/apis/core/validation`, `ValidateNode` and `ValidateNodeUpdate`. */
export function problemsOfNode(next: Node, before: Node | undefined): readonly Problem[] {
  return [
    ...taintProblems(next),
    ...podCIDRProblems(next),
    ...(before === undefined ? [] : updateProblems(next, before)),
  ];
}

/** The API server names these fields below `metadata`. */
function taintProblems(node: Node): readonly Problem[] {
  const seen = new Set<string>();
  return taintsOf(node).flatMap((taint, index) => {
    const { key, value = "", effect } = taint;
    const field = `metadata.taints[${index}]`;
    const problems: Problem[] = [];
    if (!qualifiedName.test(key)) problems.push(invalidValue(`${field}.key`, key, "must be a qualified name"));
    if (!labelValue.test(value)) problems.push(invalidValue(`${field}.value`, value, "must be a valid label value"));
    if (effect === "") problems.push(required(`${field}.effect`));
    else if (!effects.includes(effect)) problems.push(unsupported(`${field}.effect`, effect, effects));
    if (seen.has(`${key}:${effect}`)) problems.push(duplicate(field, taint));
    seen.add(`${key}:${effect}`);
    return problems;
  });
}

function podCIDRProblems({ spec }: Node): readonly Problem[] {
  const ranges = spec?.podCIDRs ?? [];
  const wrong = ranges.flatMap((range, index) =>
    ipaddr.isValidCIDR(range) ? [] : [invalidValue(`spec.podCIDRs[${index}]`, range, "must be a valid CIDR value")],
  );
  if (wrong.length > 0) return wrong;
  const families = new Set(ranges.map((range) => ipaddr.parseCIDR(range)[0].kind()));
  return families.size === ranges.length
    ? []
    : [invalidValue("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family")];
}

function updateProblems(next: Node, before: Node): readonly Problem[] {
  const problems: Problem[] = [];
  const { podCIDRs = [], providerID = "" } = before.spec ?? {};
  if (podCIDRs.length > 0 && !equal(next.spec?.podCIDRs, podCIDRs))
    problems.push(mayNot("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid'));
  if (providerID !== "" && next.spec?.providerID !== providerID)
    problems.push(mayNot("spec.providerID", 'node updates may not change providerID except from "" to valid'));
  const seen = new Set<string>();
  for (const [index, address] of (next.status?.addresses ?? []).entries()) {
    const text = `${address.type} ${address.address}`;
    if (seen.has(text)) problems.push(duplicate(`status.addresses[${index}]`, address));
    seen.add(text);
  }
  return problems;
}
