import type { Node, Service } from "cloud-controller-host/sdk";

import { familyOf, isPublicAddress, RangeSet } from "../model/addresses.ts";
import { limits } from "../model/limits.ts";
import type { Observed } from "../model/model.ts";
import { oncePer } from "../model/once-per.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { overrideTags, parseTags } from "../model/tags.ts";
import { fullKey } from "../service/annotation-rows.ts";
import { annotations } from "../service/annotations.ts";
import { quoted, some } from "../service/readers.ts";
import { type Subject, wantedAddresses, wantedPublicIP } from "../service/subject.ts";
import { desiredRules } from "./balancer/rules.ts";
import { accessOf } from "./security-group/access.ts";
import { securityRulesProblems } from "./security-group/size.ts";

/** One rule about a Service by itself; returns what breaks it. */
type Check = (subject: Subject, config: PlannerConfig) => readonly string[];

const ports: Check = ({ ports: list }) => {
  const seen = new Set<string>();
  return list.flatMap(({ port, protocol = "TCP" }) => {
    const key = `${protocol}/${port}`;
    if (!Number.isInteger(port) || port < 1 || port > 65535) return [`spec.ports: port ${port} is not in 1 to 65535`];
    if (seen.has(key)) return [`spec.ports: ${key} is given more than once`];
    seen.add(key);
    return [];
  });
};

const specAddress: Check = ({ service }) => {
  const address = service.spec?.loadBalancerIP ?? "";
  return address === "" || familyOf(address) !== undefined
    ? []
    : [`spec.loadBalancerIP: ${quoted(address)} is not an IP address`];
};

const publicAddresses: Check = (subject) =>
  subject.internal
    ? []
    : wantedAddresses(subject)
        .filter((address) => familyOf(address) !== undefined && !isPublicAddress(address))
        .map(
          (address) => `cannot use non-public LoadBalancer IP ${quoted(address)} for external Service ${subject.key}`,
        );

const sourceRanges: Check = (subject) => accessOf(subject).problems;

/** SCTP, node ports, probe ports and probe timing. */
const rules: Check = (subject, config) => {
  const targets = { loadBalancer: "", frontend: "", pool: "" };
  return subject.families.flatMap((family) => desiredRules(subject, family, targets, config).problems);
};

/** Selects its address or its public IP. */
const isPinned = (subject: Subject): boolean =>
  wantedAddresses(subject).length > 0 || subject.families.some((one) => wantedPublicIP(subject, one) !== "");

const pinned: Check = (subject, config) => {
  const names = subject.settings.get(annotations.configurations);
  return config.loadBalancers.length === 0 || names === undefined || !isPinned(subject)
    ? []
    : [
        `conflicting load balancer configuration: annotation ${fullKey(annotations.configurations)} cannot be combined with an address or a public IP, which have a load balancer already`,
      ];
};

const privateLink: Check = ({ settings, internal, floatingIP, families }) => {
  if (!settings.get(annotations.plsCreate)) return [];
  const problems: string[] = [];
  const addresses = settings.get(annotations.plsAddresses).length;
  const count = settings.get(annotations.plsCount) ?? 1;
  if (!internal && floatingIP)
    problems.push(`annotation ${fullKey(annotations.plsCreate)}: Service must be internal or disable floating IP`);
  if (families.length === 1 && families[0] === "IPv6")
    problems.push(`annotation ${fullKey(annotations.plsCreate)}: IPv6 is not supported for private link service`);
  if (addresses > count)
    problems.push(
      `annotation ${fullKey(annotations.plsAddresses)}: ${addresses} addresses, but ${fullKey(annotations.plsCount)} is ${count}`,
    );
  return problems;
};

/** Checks what a Service adds at least to the load balancer and the security group against Azure's limits. */
const size: Check = (subject) => {
  const { ports: list, families } = subject;
  const needed = list.length * families.length;
  const { rulesPerLoadBalancer } = limits;
  if (needed > rulesPerLoadBalancer)
    return [
      `spec.ports: ${list.length} ports in ${count(families.length, "IP family", "IP families")} need ${needed} rules; a load balancer has ${rulesPerLoadBalancer} at most; split the Service`,
    ];
  return securityRulesProblems(subject);
};

const count = (number: number, one: string, several: string): string => `${number} ${number === 1 ? one : several}`;

/** Owners that the cloud adds to the tags of a public IP: the Services, the cluster, and the Service with the DNS label. */
const ownTags = ({ settings }: Subject): number => (settings.get(annotations.dnsLabel) ? 3 : 2);

/** A public IP that is selected may be a user's, which is never tagged. */
const tags: Check = (subject, config) => {
  const given = parseTags(subject.settings.get(annotations.pipTags));
  const [ofConfig, ofService] = ["cloud config: tags", `annotation ${fullKey(annotations.pipTags)}`];
  const [where, what, number] =
    subject.internal || isPinned(subject)
      ? [ofConfig, "load balancer", config.tags.size]
      : [given.size > 0 ? ofService : ofConfig, "public IP", overrideTags(config.tags, given).size + ownTags(subject)];
  const { tagsPerResource } = limits;
  return [
    ...(number > tagsPerResource
      ? [`${where}: the ${what} would have ${number} tags, ${tagsPerResource} at most; use fewer`]
      : []),
    ...longTags(config.tags, ofConfig),
    ...longTags(given, ofService),
  ];
};

function longTags(all: ReadonlyMap<string, string>, where: string): readonly string[] {
  const { tagNameLength, tagValueLength } = limits;
  const long = all.entries().find(([key, value]) => key.length > tagNameLength || value.length > tagValueLength);
  return long === undefined
    ? []
    : [`${where}: ${quoted(long[0])}: a key has ${tagNameLength} characters and a value ${tagValueLength} at most`];
}

const checks: readonly Check[] = [tags, ports, specAddress, publicAddresses, sourceRanges, rules, pinned, privateLink];

/** Everything that is wrong with a Service whatever Azure holds. Nothing is built for one that exceeds Azure's limits. */
export const problemsOf: Check = (subject, config) => problemsBy(config)(subject);

const problemsBy = oncePer((config: PlannerConfig) =>
  oncePer((subject: Subject) => {
    const tooLarge = size(subject, config);
    return tooLarge.length > 0 ? tooLarge : [...new Set(checks.flatMap((check) => check(subject, config)))];
  }),
);

/**
 * Additional addresses that are the cluster's own. A Service with the address of a node, a Pod or another Service in its
 * status would draw the cluster's traffic to it (CVE-2020-8554).
 */
export function ownAddressProblems({ additionalAddresses }: Subject, ownRanges: () => RangeSet): readonly string[] {
  if (additionalAddresses.length === 0) return [];
  const ranges = ownRanges();
  const own = additionalAddresses.filter((address) => ranges.has(address));
  return own.length === 0
    ? []
    : [`annotation ${fullKey(annotations.additionalPublicIPs)}: ${some(own)}: addresses of the cluster are refused`];
}

/** The addresses of nodes and Services, and the ranges of Pods. */
export function clusterRanges({ nodes, services }: Observed): RangeSet {
  const ranges = new RangeSet();
  for (const node of nodes) for (const range of ofNode(node)) ranges.add(range);
  for (const service of services) for (const range of ofService(service)) ranges.add(range);
  return ranges;
}

const ofNode = ({ spec, status }: Node): readonly string[] => [
  ...(spec?.podCIDRs ?? (spec?.podCIDR === undefined ? [] : [spec.podCIDR])),
  ...(status?.addresses ?? []).map(({ address }) => single(address)),
];

const ofService = ({ spec }: Service): readonly string[] => (spec?.clusterIPs ?? []).map(single);

/** An address as a range; text that is not an address is not a range either. */
const single = (address: string): string => `${address}/${familyOf(address) === "IPv4" ? 32 : 128}`;
