import { aggregate, parsePrefix } from "../../model/addresses.ts";
import { limits } from "../../model/limits.ts";
import type { Family } from "../../model/model.ts";
import { oncePer } from "../../model/once-per.ts";
import { fullKey } from "../../service/annotation-rows.ts";
import { annotations } from "../../service/annotations.ts";
import { some } from "../../service/readers.ts";
import type { Subject } from "../../service/subject.ts";

type RulePrefix = NonNullable<ReturnType<typeof parsePrefix>>;

/** Protocols of security rules, in the order in which rules are created. */
export const ruleProtocols = ["Tcp", "Udp", "*"] as const;
export type RuleProtocol = (typeof ruleProtocols)[number];

/** Clients that may connect to a Service. Source: upstream `loadbalancer.AccessControl`. */
export interface Access {
  /** Service tags; `Internet` alone for a Service that neither restricts its clients nor is internal. */
  readonly tags: readonly string[];
  readonly ranges: Readonly<Record<Family, readonly string[]>>;
  readonly denyAll: boolean;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

export const accessOf = oncePer(readAccess);

function readAccess(subject: Subject): Access {
  const { settings, service } = subject;
  const inSpec = service.spec?.loadBalancerSourceRanges ?? [];
  const ofSpec = split(inSpec.slice(0, maxRanges));
  const annotated = rows.map((row) => split(settings.get(row) ?? []));
  const valid = [...ofSpec.valid, ...annotated.flatMap((one) => one.valid)];
  const invalid = [...ofSpec.invalid, ...annotated.flatMap((one) => one.invalid)];
  const tags = settings.get(annotations.allowedServiceTags);
  const bothGiven = ofSpec.valid.length > 0 && annotated.some((one) => one.valid.length > 0);
  const isOpen = tags.length + valid.length + invalid.length === 0 && !subject.internalInAnyCase;
  return {
    tags: isOpen ? ["Internet"] : tags,
    ranges: { IPv4: aggregate(valid, "IPv4"), IPv6: aggregate(valid, "IPv6") },
    denyAll: invalid.length > 0 || (settings.get(annotations.denyAllExceptRanges) && valid.length > 0),
    problems: [...(bothGiven ? [conflict] : []), ...(inSpec.length > maxRanges ? [tooManyRanges(inSpec.length)] : [])],
    warnings: [
      ...invalidRanges("spec.LoadBalancerSourceRanges", ofSpec),
      ...rows.flatMap((row, index) => invalidRanges(fullKey(row), annotated[index] ?? ofSpec)),
    ],
  };
}

/** True if a Service opens its ports on destinations of the family: an internal one does so for its own sources only. */
export const opensPorts = (subject: Subject, family: Family): boolean => {
  const { tags, ranges } = accessOf(subject);
  return !subject.settings.get(annotations.disableSecurityRules) && (tags.length > 0 || ranges[family].length > 0);
};

const rows = [annotations.allowedIPRanges, annotations.sourceRanges] as const;

/** upstream: `EventMessageOfInvalidSourceRanges`. */
const invalidRanges = (where: string, { invalid }: Ranges): readonly string[] =>
  invalid.length === 0
    ? []
    : [
        `Found invalid ${where} [${some(invalid)}], ignoring and adding a default DenyAll rule in security group: not a CIDR with zero host bits`,
      ];

const maxRanges = limits.prefixesPerSecurityGroup;
const tooManyRanges = (count: number): string =>
  `spec.loadBalancerSourceRanges has ${count} items; a security group has room for ${maxRanges} prefixes`;

const conflict = `cannot set both spec.LoadBalancerSourceRanges and service annotation ${fullKey(annotations.allowedIPRanges)}`;

interface Ranges {
  readonly valid: readonly RulePrefix[];
  readonly invalid: readonly string[];
}

function split(texts: readonly string[]): Ranges {
  const valid: RulePrefix[] = [];
  const invalid: string[] = [];
  for (const text of texts) {
    const prefix = parsePrefix(text.trim());
    if (prefix === undefined) invalid.push(text);
    else valid.push(prefix);
  }
  return { valid, invalid };
}

type Ports = ReadonlyMap<RuleProtocol, readonly number[]>;

/** Ports by protocol: those of the Service, or its node ports without floating IP. SCTP rules have protocol `*`. */
export const portsOf = oncePer((subject: Subject): Ports => {
  const found = new Map<RuleProtocol, number[]>();
  for (const { protocol = "TCP", port, nodePort } of subject.ports) {
    const key = protocol === "TCP" ? "Tcp" : protocol === "UDP" ? "Udp" : "*";
    const number = subject.floatingIP ? port : (nodePort ?? 0);
    const list = found.get(key);
    if (list === undefined) found.set(key, [number]);
    else list.push(number);
  }
  return found;
});
