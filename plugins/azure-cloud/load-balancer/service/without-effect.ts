import { noDrain } from "../model/drain.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { type Annotation, fullKey } from "./annotation-rows.ts";
import { annotations } from "./annotations.ts";
import type { Subject } from "./subject.ts";

/** Why an annotation has no effect on such a Service; `undefined`: it may have one. */
type Reason = (subject: Subject, config: PlannerConfig) => string | undefined;

const unless =
  (isMet: (subject: Subject, config: PlannerConfig) => boolean, reason: string): Reason =>
  (subject, config) =>
    isMet(subject, config) ? undefined : reason;

const external = unless(({ internal }) => !internal, "an internal load balancer has no public IP");
const internal = unless((subject) => subject.internalInAnyCase, "the load balancer is not internal");
const hasFamily = (family: "IPv4" | "IPv6") =>
  unless(({ families }) => families.includes(family), `the Service has no ${family} family`);
const both =
  (...reasons: readonly Reason[]): Reason =>
  (subject, config) =>
    reasons.map((reason) => reason(subject, config)).find((text) => text !== undefined);
const linked = unless(
  ({ settings }) => settings.get(annotations.plsCreate),
  `${fullKey(annotations.plsCreate)} is not true`,
);
const standard = unless((_, { sku }) => sku === "standard", "the cluster's load balancers have the basic SKU");

/** Annotations with a condition; all others always have an effect. */
const conditions: readonly (readonly [Annotation<unknown>, Reason])[] = [
  [annotations.internalSubnet, internal],
  [annotations.haPorts, both(internal, standard)],
  [annotations.mode, unless((_, { sku }) => sku === "basic", "the cluster's load balancers have the standard SKU")],
  [
    annotations.configurations,
    unless((_, { loadBalancers }) => loadBalancers.length > 0, "the cluster has one load balancer of each kind"),
  ],
  [annotations.drainSeconds, unless((_, { pools }) => pools === "addresses", noDrain)],
  [annotations.resourceGroup, external],
  [annotations.dnsLabel, external],
  [annotations.pipName, external],
  [annotations.pipNameIPv6, both(external, hasFamily("IPv6"))],
  [annotations.pipPrefix, external],
  [annotations.pipPrefixIPv6, both(external, hasFamily("IPv6"))],
  [annotations.pipTags, external],
  [annotations.pipIPTags, external],
  [annotations.ipv4, hasFamily("IPv4")],
  [annotations.ipv6, hasFamily("IPv6")],
  [
    annotations.additionalPublicIPs,
    unless((_, config) => !config.disableAdditionalPublicIPs, "disableAdditionalPublicIPs is set in the cloud config"),
  ],
  [annotations.gatewayFrontend, both(external, standard)],
  [annotations.plsDeleteProtection, linked],
  [annotations.plsName, linked],
  [annotations.plsResourceGroup, linked],
  [annotations.plsSubnet, linked],
  [annotations.plsCount, linked],
  [annotations.plsAddresses, linked],
  [annotations.plsFqdns, linked],
  [annotations.plsProxyProtocol, linked],
  [annotations.plsVisibility, linked],
  [annotations.plsAutoApproval, linked],
];

/** Annotations that a Service has and that have no effect on its kind of load balancer, each with the reason. */
export const withoutEffect = (subject: Subject, config: PlannerConfig): readonly string[] =>
  conditions.flatMap(([row, reasonOf]) => {
    const given = subject.service.metadata?.annotations?.[fullKey(row)];
    const reason = given === undefined || isNothing(row, given) ? undefined : reasonOf(subject, config);
    return reason === undefined ? [] : [`annotation ${fullKey(row)} has no effect: ${reason}`];
  });

/** A value that asks for nothing: blank, or what it would be if absent. */
const isNothing = (row: Annotation<unknown>, text: string): boolean => {
  const [given, absent] = [row.read(text), row.read(undefined)];
  return text.trim() === "" || ("value" in given && "value" in absent && given.value === absent.value);
};
