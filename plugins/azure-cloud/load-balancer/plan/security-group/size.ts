import { familyOf } from "../../model/addresses.ts";
import { limits } from "../../model/limits.ts";
import { fullKey } from "../../service/annotation-rows.ts";
import { annotations } from "../../service/annotations.ts";
import type { Subject } from "../../service/subject.ts";
import { accessOf, portsOf } from "./access.ts";

interface Size {
  readonly rules: number;
  readonly sources: number;
  readonly destinations: number;
}

const limitOf: Readonly<Record<keyof Size, readonly [limit: number, what: string]>> = {
  rules: [limits.rulesPerSecurityGroup, "rules"],
  sources: [limits.prefixesPerSecurityGroup, "source prefixes"],
  destinations: [limits.prefixesPerSecurityGroup, "destination prefixes"],
};

/**
 * What the rules of a Service alone exceed of Azure's limits. Counted, never built: the rules of each protocol and
 * family are one per service tag and one for all ranges, each with every destination of the family.
 */
export function securityRulesProblems(subject: Subject): readonly string[] {
  if (subject.settings.get(annotations.disableSecurityRules)) return [];
  const size = sizeOf(subject);
  return (["rules", "sources", "destinations"] as const).flatMap((kind) => {
    const [limit, what] = limitOf[kind];
    return size[kind] <= limit
      ? []
      : [
          `needs ${size[kind]} ${what} in the security group, which has ${limit} at most; use fewer items in ${listed(subject)}`,
        ];
  });
}

/** At least: the nodes of a Service without floating IP are not counted. */
function sizeOf(subject: Subject): Size {
  const { tags, ranges, denyAll } = accessOf(subject);
  const protocols = portsOf(subject).size;
  const additional = Map.groupBy(subject.additionalAddresses, familyOf);
  const total = { rules: 0, sources: 0, destinations: 0 };
  for (const family of ["IPv4", "IPv6"] as const) {
    const destinations = (subject.families.includes(family) ? 1 : 0) + (additional.get(family)?.length ?? 0);
    if (destinations === 0) continue;
    const deny = denyAll ? 1 : 0;
    const rules = protocols * (tags.length + (ranges[family].length > 0 ? 1 : 0)) + deny;
    total.rules += rules;
    total.sources += protocols * (tags.length + ranges[family].length) + deny;
    total.destinations += rules * destinations;
  }
  return total;
}

const lists = [
  annotations.allowedServiceTags,
  annotations.additionalPublicIPs,
  annotations.allowedIPRanges,
  annotations.sourceRanges,
] as const;

/** The lists that the Service has, as users know them. */
function listed({ service, settings }: Subject): string {
  const given = lists.filter((row) => (settings.get(row)?.length ?? 0) > 0).map((row) => fullKey(row));
  const ranges = service.spec?.loadBalancerSourceRanges ?? [];
  return [...given, ...(ranges.length > 0 ? ["spec.loadBalancerSourceRanges"] : [])].join(", ");
}
