import { defaultLoadBalancerName, keyOf, type Service, type ServicePort } from "cloud-controller-host/sdk";

import { familyOf } from "../model/addresses.ts";
import type { Family, ServiceKey } from "../model/model.ts";
import type { Named } from "../model/names.ts";
import { oncePer } from "../model/once-per.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { fullKey } from "./annotation-rows.ts";
import { annotations } from "./annotations.ts";
import { quoted } from "./readers.ts";
import { readSettings, type Settings } from "./settings.ts";

/** A Service as planning sees it. */
export interface Subject extends Named {
  readonly key: ServiceKey;
  readonly service: Service;
  readonly settings: Settings;
  readonly ports: readonly ServicePort[];
  /** In the order of the spec; IPv4 where the spec has none. */
  readonly families: readonly Family[];
  /** The annotation is exactly `true`. */
  readonly internal: boolean;
  /** The annotation is `true` in any case: security rules, HA ports, SCTP and IPv6 rules go by this. */
  readonly internalInAnyCase: boolean;
  readonly floatingIP: boolean;
  /** `externalTrafficPolicy: Local`. */
  readonly local: boolean;
  /** Lower case. */
  readonly publicIPGroup: string;
  /** Further addresses of its status and its security rules. */
  readonly additionalAddresses: readonly string[];
}

interface ReadSubject {
  readonly subject: Subject;
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
}

/** Reads a Service, each object once: the API server's objects are never changed in place. */
export const readSubject = (service: Service, config: PlannerConfig): ReadSubject => subjectsBy(config)(service);

const subjectsBy = oncePer((config: PlannerConfig) => oncePer((service: Service) => parseSubject(service, config)));

function parseSubject(service: Service, config: PlannerConfig): ReadSubject {
  const { settings, problems, warnings } = readSettings(service);
  const { spec } = service;
  const internalText = settings.get(annotations.internal);
  const internal = internalText === "true";
  const subnet = settings.get(annotations.internalSubnet);
  const families = (spec?.ipFamilies ?? []).filter((family) => family === "IPv4" || family === "IPv6");
  const subject: Subject = {
    key: keyOf(service),
    service,
    settings,
    base: defaultLoadBalancerName(service),
    ports: spec?.ports ?? [],
    families: families.length === 0 ? ["IPv4"] : families,
    dualStack: families.length === 2,
    internal,
    internalInAnyCase: internalText?.toLowerCase() === "true",
    subnet: internal && subnet?.trim() ? subnet : undefined,
    floatingIP: !settings.get(annotations.disableFloatingIP),
    local: spec?.externalTrafficPolicy === "Local",
    publicIPGroup: settings.get(annotations.resourceGroup).toLowerCase() || config.resourceGroup,
    additionalAddresses: config.disableAdditionalPublicIPs ? [] : settings.get(annotations.additionalPublicIPs),
  };
  return { subject, problems, warnings: [...warnings, ...internalWarning(internalText)] };
}

const internalWarning = (text: string | undefined): readonly string[] =>
  text === undefined || text === "true" || text === "false"
    ? []
    : [
        `annotation ${fullKey(annotations.internal)}: ${quoted(text)} does not make the load balancer internal; only true, in lower case, does`,
      ];

/** The desired address of the frontend of a family; empty: any. Source: upstream `getServiceLoadBalancerIP`. */
export function wantedAddress({ settings, service }: Subject, family: Family): string {
  const annotated = settings.get(family === "IPv4" ? annotations.ipv4 : annotations.ipv6);
  const inSpec = service.spec?.loadBalancerIP ?? "";
  return annotated || (familyOf(inSpec) === family ? inSpec : "");
}

/** Every address that the Service asks for. Source: upstream `getServiceLoadBalancerIPs`. */
export const wantedAddresses = oncePer(({ settings, service }: Subject): readonly string[] => {
  const annotated = [settings.get(annotations.ipv4), settings.get(annotations.ipv6)].filter(Boolean);
  const inSpec = service.spec?.loadBalancerIP ?? "";
  return annotated.length > 0 || inSpec === "" ? annotated : [inSpec];
});

/** The value of an annotation that exists once per family; an IPv6-only Service may use either. */
function byFamily(subject: Subject, family: Family, ipv4: string, ipv6: string): string {
  if (subject.dualStack) return family === "IPv4" ? ipv4 : ipv6;
  if (!subject.families.includes(family)) return "";
  return family === "IPv6" ? ipv6 || ipv4 : ipv4;
}

/** Name of the existing public IP that the Service asks for; empty: none. Source: upstream `getServicePIPName`. */
export const wantedPublicIP = (subject: Subject, family: Family): string =>
  byFamily(subject, family, subject.settings.get(annotations.pipName), subject.settings.get(annotations.pipNameIPv6));

/** True if the Service asks for an address that exists: another one may have it, too. */
export const choosesAddress = (subject: Subject): boolean =>
  wantedAddresses(subject).length > 0 || subject.families.some((family) => wantedPublicIP(subject, family) !== "");

/** Resource id of the prefix that public IPs are created from; empty: none. Source: upstream `getServicePIPPrefixID`. */
export const wantedPrefix = (subject: Subject, family: Family): string =>
  byFamily(
    subject,
    family,
    subject.settings.get(annotations.pipPrefix),
    subject.settings.get(annotations.pipPrefixIPv6),
  );
