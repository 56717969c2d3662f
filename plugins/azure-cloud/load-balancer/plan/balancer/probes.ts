import type { Probe } from "@azure/arm-network";
import { serviceHealthCheck, type ServicePort } from "cloud-controller-host/sdk";

import type { Family } from "../../model/model.ts";
import { ruleName, sharedProbeName } from "../../model/names.ts";
import type { PlannerConfig } from "../../model/planner-config.ts";
import { fullKey } from "../../service/annotation-rows.ts";
import { annotations, portAnnotations } from "../../service/annotations.ts";
import { quoted } from "../../service/readers.ts";
import type { Subject } from "../../service/subject.ts";

/** Name, protocol, port, path and timing of a probe. */
export type DesiredProbe = Readonly<
  Required<Pick<Probe, "name" | "protocol" | "port" | "intervalInSeconds" | "probeThreshold">> &
    Pick<Probe, "requestPath">
>;

/** The probe of a rule, `undefined` where there is none, or why there cannot be one. */
export type ProbeChoice = { readonly probe: DesiredProbe | undefined } | { readonly problem: string };

/** ARM's limit for interval times threshold, in seconds. */
const maxProbeSeconds = 120;

/** True if connections carry a proxy header, which the health check of `externalTrafficPolicy: Local` cannot read. */
const usesProxyProtocol = ({ settings }: Subject): boolean =>
  settings.get(annotations.plsCreate) && settings.get(annotations.plsProxyProtocol);

/** The probe that all ports share: the cluster's, or the health check of `externalTrafficPolicy: Local`. */
export function commonProbe(subject: Subject, family: Family, config: PlannerConfig): ProbeChoice {
  const check = usesProxyProtocol(subject) ? undefined : serviceHealthCheck(subject.service);
  if (check !== undefined) {
    const name = ruleName(subject, "TCP", check.port, family);
    return timed(subject, check.port, { name, protocol: "Http", port: check.port, requestPath: check.path });
  }
  if (config.sharedProbe === undefined || subject.local) return { probe: undefined };
  const { port, path } = config.sharedProbe;
  const probe = { name: sharedProbeName, protocol: "Http", port, requestPath: path } as const;
  return { probe: { ...probe, intervalInSeconds: 5, probeThreshold: 2 } };
}

/**
 * The probe of one port under `name`: its own, else `common`, else one of its node port. UDP and SCTP cannot be probed.
 * Source: upstream `buildHealthProbeRulesForPort`.
 */
export function portProbe(
  subject: Subject,
  port: ServicePort,
  name: string,
  { common, config }: { readonly common: DesiredProbe | undefined; readonly config: PlannerConfig },
): ProbeChoice {
  const given = subject.settings.port(portAnnotations.probePort, port.port);
  const isTcp = (port.protocol ?? "TCP") === "TCP";
  if (!isTcp || common?.name === sharedProbeName || (given === undefined && common !== undefined))
    return { probe: common };
  const probed = given === undefined ? (port.nodePort ?? 0) : probedPort(subject, given);
  if (probed === undefined)
    return {
      problem: `annotation ${fullKey(portAnnotations.probePort, port.port)}: ${quoted(given ?? "")} ${portValues}`,
    };
  if (probed === 0 && !hasNodePorts(subject)) return { problem: withoutNodePort(port.port) };
  const protocol = protocolOf(subject, port, config);
  const path = protocol === "Tcp" ? {} : { requestPath: pathOf(subject, port.port) };
  return timed(subject, port.port, { name, protocol, port: probed, ...path });
}

const portValues = "was not found in service: it is neither the name of a port nor an integer from 1 to 65535";

/** False for a Service whose ports may have no node port: ARM has no port 0. */
export const hasNodePorts = ({ service }: Subject): boolean => service.spec?.allocateLoadBalancerNodePorts !== false;

/** The refusal of a port that needs a node port, with what does not need one. */
export const withoutNodePort = (port: number): string =>
  `port ${port}: has no node port to probe, as spec.allocateLoadBalancerNodePorts is false; use spec.externalTrafficPolicy Local, annotation ${fullKey(portAnnotations.probePort, port)} or ${fullKey(portAnnotations.noProbe, port)}, or clusterServiceLoadBalancerHealthProbeMode shared in the cloud config`;

/**
 * A port's name or number stands for its node port; another number is taken as it is. Of two ports of one number, the TCP
 * port is the one that answers probes, whatever their order.
 */
function probedPort({ ports }: Subject, given: string): number | undefined {
  const number = /^\d{1,5}$/u.test(given) ? Number(given) : undefined;
  const named = ports.filter(({ name = "", port }) =>
    number === undefined ? name.toLowerCase() === given.toLowerCase() : port === number,
  );
  const known = named.find(({ protocol = "TCP" }) => protocol === "TCP") ?? named[0];
  if (known !== undefined) return known.nodePort ?? 0;
  return number !== undefined && number >= 1 && number <= 65535 ? number : undefined;
}

function protocolOf({ settings }: Subject, port: ServicePort, config: PlannerConfig): "Tcp" | "Http" | "Https" {
  const ofPort = settings.port(portAnnotations.probeProtocol, port.port);
  const ofApp =
    port.appProtocol === undefined ? undefined : (known.get(port.appProtocol.trim().toLowerCase()) ?? "Tcp");
  const chosen = ofPort ?? ofApp ?? settings.get(annotations.probeProtocol) ?? "Tcp";
  return chosen === "Https" && config.sku === "basic" ? "Tcp" : chosen;
}

const known: ReadonlyMap<string, "Http" | "Https"> = new Map([
  ["http", "Http"],
  ["https", "Https"],
]);

const pathOf = ({ settings }: Subject, port: number): string =>
  settings.port(portAnnotations.probePath, port) ?? settings.get(annotations.probePath) ?? "/";

function timed(
  { settings }: Subject,
  port: number,
  probe: Omit<DesiredProbe, "intervalInSeconds" | "probeThreshold">,
): ProbeChoice {
  const interval = settings.port(portAnnotations.probeInterval, port) ?? settings.get(annotations.probeInterval) ?? 5;
  const threshold =
    settings.port(portAnnotations.probeThreshold, port) ?? settings.get(annotations.probeThreshold) ?? 2;
  if (interval * threshold >= maxProbeSeconds)
    return {
      problem: `port ${port}: total probe should be less than ${maxProbeSeconds} seconds, got ${interval} s × ${threshold}`,
    };
  return { probe: { ...probe, intervalInSeconds: interval, probeThreshold: threshold } };
}

/** `present` is ARM's reply: a property that its API version lacks is not a difference. Source: upstream `findProbe`. */
export const equalProbes = (
  { hasProbeThreshold }: PlannerConfig,
  present: Readonly<Probe>,
  wanted: Readonly<Probe>,
): boolean =>
  present.name?.toLowerCase() === wanted.name?.toLowerCase() &&
  present.protocol === wanted.protocol &&
  (present.requestPath ?? "").toLowerCase() === (wanted.requestPath ?? "").toLowerCase() &&
  present.port === wanted.port &&
  present.intervalInSeconds === wanted.intervalInSeconds &&
  (present.probeThreshold === wanted.probeThreshold || (!hasProbeThreshold && present.probeThreshold === undefined));
