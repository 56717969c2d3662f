import type { LoadBalancingRule } from "@azure/arm-network";
import type { ServicePort } from "cloud-controller-host/sdk";

import { lastSegment } from "../../../arm/resource-id.ts";
import { childId, sameId } from "../../model/ids.ts";
import type { Family } from "../../model/model.ts";
import { ruleName } from "../../model/names.ts";
import { oncePer } from "../../model/once-per.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { annotations, portAnnotations } from "../../service/annotations.ts";
import type { Subject } from "../../service/subject.ts";
import { commonProbe, type DesiredProbe, hasNodePorts, portProbe, withoutNodePort } from "./probes.ts";

/** The ids that a Service's rules of one family refer to. */
export interface RuleTargets {
  readonly loadBalancer: string;
  readonly frontend: string;
  readonly pool: string;
}

interface DesiredRules {
  readonly rules: readonly Readonly<LoadBalancingRule>[];
  readonly probes: readonly DesiredProbe[];
  readonly problems: readonly string[];
}

interface Collected {
  readonly rules: LoadBalancingRule[];
  readonly probes: DesiredProbe[];
  readonly problems: string[];
}

/** Rules and probes of one family. Source: upstream `getExpectedLBRules`. */
export function desiredRules(
  subject: Subject,
  family: Family,
  targets: RuleTargets,
  config: PlannerConfig,
): DesiredRules {
  const common = commonProbe(subject, family, config);
  if ("problem" in common) return { rules: [], probes: [], problems: [common.problem] };
  const collected: Collected = { rules: [], probes: [], problems: [] };
  const builder: Builder = { subject, family, targets, config, common: common.probe };
  if (hasAllPorts(subject, config)) addRuleForAllPorts(builder, collected);
  else for (const port of subject.ports) addRule(builder, port, collected);
  if (common.probe === undefined || !isUsed(common.probe, collected)) return collected;
  return { ...collected, probes: [common.probe, ...collected.probes] };
}

/** Lower-case names of a Service's rules by family: they are the same on every load balancer. */
export const ruleNames = (subject: Subject, config: PlannerConfig): ReadonlyMap<Family, ReadonlySet<string>> =>
  namesBy(config)(subject);

const namesBy = oncePer((config: PlannerConfig) =>
  oncePer((subject: Subject) => {
    const targets = { loadBalancer: "", frontend: "", pool: "" };
    const namesOf = (family: Family) =>
      new Set(desiredRules(subject, family, targets, config).rules.map(({ name = "" }) => name.toLowerCase()));
    return new Map(subject.families.map((family) => [family, namesOf(family)]));
  }),
);

/** All ports may have probes of their own, or none. */
const isUsed = ({ name }: DesiredProbe, { rules }: Collected): boolean =>
  rules.some(({ probe }) => lastSegment(probe?.id ?? "") === name);

interface Builder {
  readonly subject: Subject;
  readonly family: Family;
  readonly targets: RuleTargets;
  readonly config: PlannerConfig;
  readonly common: DesiredProbe | undefined;
}

/** HA ports. */
const hasAllPorts = ({ settings, internalInAnyCase }: Subject, { sku }: PlannerConfig): boolean =>
  internalInAnyCase && sku === "standard" && settings.get(annotations.haPorts);

function addRuleForAllPorts(builder: Builder, { rules, probes, problems }: Collected): void {
  const { subject, family, config } = builder;
  const [first] = subject.ports;
  if (first === undefined) return;
  const name = ruleName(subject, first.protocol ?? "TCP", first.port, family);
  const probe = builder.common ?? firstProbe(builder, name);
  const tcp = subject.ports.find(({ protocol = "TCP" }) => protocol === "TCP");
  if (probe === undefined && tcp !== undefined && !hasNodePorts(subject)) problems.push(withoutNodePort(tcp.port));
  if (probe !== undefined && probe !== builder.common) probes.push(probe);
  rules.push({
    ...commonRule(builder, name, probe),
    protocol: "All",
    frontendPort: 0,
    backendPort: 0,
    enableFloatingIP: !isInternalIPv6(builder),
    ...(config.sku === "standard" && { enableTcpReset: !subject.settings.get(annotations.disableTcpReset) }),
  });
}

/** The first port that can be probed lends its probe to the rule for all ports. */
function firstProbe({ subject, config }: Builder, name: string): DesiredProbe | undefined {
  for (const port of subject.ports) {
    const choice = portProbe(subject, port, name, { common: undefined, config });
    if ("probe" in choice && choice.probe !== undefined) return choice.probe;
  }
  return undefined;
}

function addRule(builder: Builder, port: ServicePort, { rules, probes, problems }: Collected): void {
  const { subject, family, config, common } = builder;
  const { settings } = subject;
  if (settings.port(portAnnotations.noRule, port.port)) return;
  const protocol = port.protocol ?? "TCP";
  if (protocol === "SCTP" && !(config.sku === "standard" && subject.internalInAnyCase)) {
    problems.push(`port ${port.port}: SCTP is only supported on standard loadbalancer in internal mode`);
    return;
  }
  const name = ruleName(subject, protocol, port.port, family);
  const choice = settings.port(portAnnotations.noProbe, port.port)
    ? { probe: undefined }
    : portProbe(subject, port, name, { common, config });
  if ("problem" in choice) {
    problems.push(choice.problem);
    return;
  }
  if (choice.probe !== undefined && choice.probe !== common) probes.push(choice.probe);
  const direct = subject.floatingIP && !isInternalIPv6(builder);
  if (!direct && !port.nodePort && !hasNodePorts(subject)) {
    problems.push(
      `port ${port.port}: traffic without floating IP needs a node port, and spec.allocateLoadBalancerNodePorts is false`,
    );
    return;
  }
  rules.push({
    ...commonRule(builder, name, choice.probe),
    protocol: transportOf[protocol] ?? "Tcp",
    frontendPort: port.port,
    backendPort: direct ? port.port : (port.nodePort ?? 0),
    enableFloatingIP: direct,
    ...(protocol === "TCP" &&
      config.sku === "standard" && { enableTcpReset: !settings.get(annotations.disableTcpReset) }),
  });
}

/** Azure has no floating IP for internal IPv6 frontends. */
const isInternalIPv6 = ({ subject, family }: Builder): boolean => family === "IPv6" && subject.internalInAnyCase;

const transportOf: Readonly<Record<string, string>> = { TCP: "Tcp", UDP: "Udp", SCTP: "All" };

function commonRule({ subject, targets, config }: Builder, name: string, probe: DesiredProbe | undefined) {
  return {
    name,
    idleTimeoutInMinutes: subject.settings.get(annotations.idleTimeout) ?? 4,
    loadDistribution: subject.service.spec?.sessionAffinity === "ClientIP" ? "SourceIP" : "Default",
    disableOutboundSnat: config.disableOutboundSnat,
    frontendIPConfiguration: { id: targets.frontend },
    backendAddressPool: { id: targets.pool },
    ...(probe !== undefined && { probe: { id: childId(targets.loadBalancer, "probes", probe.name) } }),
  };
}

/** Source: upstream `findRule` and `equalLoadBalancingRulePropertiesFormat`. */
export const equalRules = (left: Readonly<LoadBalancingRule>, right: Readonly<LoadBalancingRule>): boolean =>
  left.name?.toLowerCase() === right.name?.toLowerCase() &&
  left.protocol === right.protocol &&
  (left.protocol !== "Tcp" || left.enableTcpReset === right.enableTcpReset) &&
  sameId(left.frontendIPConfiguration?.id, right.frontendIPConfiguration?.id) &&
  sameId(left.backendAddressPool?.id, right.backendAddressPool?.id) &&
  sameId(left.probe?.id, right.probe?.id) &&
  left.loadDistribution === right.loadDistribution &&
  left.frontendPort === right.frontendPort &&
  left.backendPort === right.backendPort &&
  (left.enableFloatingIP ?? false) === (right.enableFloatingIP ?? false) &&
  (left.disableOutboundSnat ?? false) === (right.disableOutboundSnat ?? false) &&
  (left.idleTimeoutInMinutes === undefined ||
    right.idleTimeoutInMinutes === undefined ||
    left.idleTimeoutInMinutes === right.idleTimeoutInMinutes);
