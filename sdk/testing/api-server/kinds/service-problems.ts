import type { Service, ServicePort } from "cloud-controller-host/sdk";
import ipaddr from "ipaddr.js";

import type { Problem } from "../access/status.ts";
import type { WriteContext } from "../resource.ts";
import { nodePortRange } from "../service-addresses.ts";
import { storeKey } from "../store/stored.ts";
import { duplicate, invalidValue, mayNot, required, unsupported } from "../validation.ts";
import {
  isExternallyAccessible,
  isHeadless,
  isLoadBalancer,
  mayHaveNodePorts,
  needsClusterIP,
  needsHealthCheckPort,
  type ServiceSpec,
} from "./service-types.ts";

/** Words that a field may hold. */
const words: readonly { readonly key: keyof ServiceSpec; readonly allowed: readonly string[] }[] = [
  { key: "type", allowed: ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"] },
  { key: "sessionAffinity", allowed: ["ClientIP", "None"] },
  { key: "externalTrafficPolicy", allowed: ["Cluster", "Local"] },
  { key: "internalTrafficPolicy", allowed: ["Cluster", "Local"] },
  { key: "ipFamilyPolicy", allowed: ["SingleStack", "PreferDualStack", "RequireDualStack"] },
];

/** Fields that only Services of some types may have. */
const typed: readonly {
  readonly key: keyof ServiceSpec;
  readonly allowed: (spec: ServiceSpec) => boolean;
  readonly why: string;
}[] = [
  {
    key: "allocateLoadBalancerNodePorts",
    allowed: isLoadBalancer,
    why: "may only be used when `type` is 'LoadBalancer'",
  },
  { key: "loadBalancerClass", allowed: isLoadBalancer, why: "may only be used when `type` is 'LoadBalancer'" },
  { key: "loadBalancerSourceRanges", allowed: isLoadBalancer, why: "may only be used when `type` is 'LoadBalancer'" },
  {
    key: "externalTrafficPolicy",
    allowed: isExternallyAccessible,
    why: "may only be set for externally-accessible services",
  },
  {
    key: "healthCheckNodePort",
    allowed: needsHealthCheckPort,
    why: "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
  },
];

export function problemsOfService(
  next: Service,
  before: Service | undefined,
  { addresses }: WriteContext,
): readonly Problem[] {
  const spec = next.spec ?? {};
  const key = storeKey(next.metadata?.namespace ?? "", next.metadata?.name ?? "");
  return [
    ...words.flatMap(({ key: field, allowed }) => {
      const value = spec[field];
      return value === undefined || allowed.some((word) => word === value)
        ? []
        : [unsupported(`spec.${field}`, value, allowed)];
    }),
    ...typed.flatMap(({ key: field, allowed, why }) =>
      spec[field] === undefined || allowed(spec) ? [] : [mayNot(`spec.${field}`, why)],
    ),
    ...clusterIPProblems(spec, before?.spec, (ip) => addresses.mayHaveIP(key, ip)),
    ...portProblems(spec, (port) => addresses.mayHavePort(key, port)),
    ...rangeProblems(spec),
    ...(spec.type === "ExternalName" && !spec.externalName ? [required("spec.externalName")] : []),
    ...classProblems(spec, before?.spec),
    ...statusProblems(next),
  ];
}

type Answer = "yes" | "taken" | "outside";

function clusterIPProblems(
  spec: ServiceSpec,
  before: ServiceSpec | undefined,
  mayHave: (ip: string) => Answer,
): readonly Problem[] {
  const { clusterIPs = [] } = spec;
  if (!needsClusterIP(spec))
    return spec.clusterIP ? [mayNot("spec.clusterIP", "may not be set when `type` is 'ExternalName'")] : [];
  if (isHeadless(spec))
    return spec.type === "ClusterIP"
      ? []
      : [invalidValue("spec.clusterIPs[0]", "None", `may not be set to 'None' for ${spec.type ?? ""} services`)];
  const old = before !== undefined && needsClusterIP(before) ? (before.clusterIPs ?? []) : [];
  if (old[0] !== undefined && clusterIPs[0] !== old[0])
    return [invalidValue("spec.clusterIPs[0]", clusterIPs, "may not change once set")];
  if (spec.clusterIP !== clusterIPs[0])
    return [invalidValue("spec.clusterIPs", clusterIPs, "first value must match `clusterIP`")];
  return clusterIPs.flatMap((ip, index) => {
    const field = `spec.clusterIPs[${index}]`;
    if (!ipaddr.isValid(ip)) return [invalidValue(field, ip, "must be a valid IP address")];
    const answer = mayHave(ip);
    if (answer === "yes") return [];
    const why =
      answer === "taken" ? "provided IP is already allocated" : "the provided network does not match the current range";
    return [invalidValue("spec.clusterIPs", clusterIPs, `failed to allocate IP ${ip}: ${why}`)];
  });
}

function portProblems(spec: ServiceSpec, mayHave: (port: number) => Answer): readonly Problem[] {
  const { ports = [] } = spec;
  if (ports.length === 0 && needsClusterIP(spec) && !isHeadless(spec)) return [required("spec.ports")];
  const names = new Set<string>();
  const numbers = new Set<string>();
  return ports.flatMap((port, index) => {
    const field = `spec.ports[${index}]`;
    const number = `${port.protocol ?? ""}/${port.port}`;
    const twice =
      port.name !== undefined && names.has(port.name)
        ? { field: `${field}.name`, value: port.name }
        : numbers.has(number)
          ? { field, value: number }
          : undefined;
    names.add(port.name ?? "");
    numbers.add(number);
    return [
      ...(ports.length > 1 && port.name === undefined ? [required(`${field}.name`)] : []),
      ...(twice === undefined ? [] : [duplicate(twice.field, twice.value)]),
      ...onePortProblems(port, field, spec, mayHave),
    ];
  });
}

const isPort = (port: number): boolean => Number.isInteger(port) && port >= 1 && port <= 65_535;
const portWish = "must be between 1 and 65535, inclusive";

function onePortProblems(
  { port, targetPort, protocol = "", nodePort }: ServicePort,
  field: string,
  spec: ServiceSpec,
  mayHave: (port: number) => Answer,
): readonly Problem[] {
  const problems: Problem[] = [];
  if (!isPort(port)) problems.push(invalidValue(`${field}.port`, port, portWish));
  if (typeof targetPort === "number" && isPort(port) && !isPort(targetPort))
    problems.push(invalidValue(`${field}.targetPort`, targetPort, portWish));
  if (!["SCTP", "TCP", "UDP"].includes(protocol))
    problems.push(unsupported(`${field}.protocol`, protocol, ["SCTP", "TCP", "UDP"]));
  if (nodePort === undefined) return problems;
  const answer = mayHave(nodePort);
  if (!mayHaveNodePorts(spec))
    problems.push(mayNot(`${field}.nodePort`, `may not be used when \`type\` is '${spec.type ?? ""}'`));
  else if (answer !== "yes") {
    const why =
      answer === "taken"
        ? "provided port is already allocated"
        : `provided port is not in the valid range. The range of valid ports is ${nodePortRange}`;
    problems.push(invalidValue(`${field}.nodePort`, nodePort, why));
  }
  return problems;
}

function rangeProblems({
  loadBalancerSourceRanges = [],
  ipFamilies = [],
  ipFamilyPolicy,
}: ServiceSpec): readonly Problem[] {
  const families =
    ipFamilyPolicy === "SingleStack" && ipFamilies.length > 1
      ? [
          invalidValue(
            "spec.ipFamilyPolicy",
            ipFamilyPolicy,
            "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
          ),
        ]
      : [];
  const ranges = loadBalancerSourceRanges.flatMap((range, index) =>
    ipaddr.isValidCIDR(range.trim())
      ? []
      : [invalidValue(`spec.LoadBalancerSourceRanges[${index}]`, range, "must be a valid CIDR value")],
  );
  return [...families, ...ranges];
}

function classProblems(spec: ServiceSpec, before: ServiceSpec | undefined): readonly Problem[] {
  if (before === undefined || !isLoadBalancer(before) || !isLoadBalancer(spec)) return [];
  return spec.loadBalancerClass === before.loadBalancerClass
    ? []
    : [invalidValue("spec.loadBalancerClass", spec.loadBalancerClass, "may not change once set")];
}

function statusProblems({ spec = {}, status }: Service): readonly Problem[] {
  const ingress = status?.loadBalancer?.ingress ?? [];
  return ingress.length === 0 || isLoadBalancer(spec)
    ? []
    : [mayNot("status.loadBalancer.ingress", "may only be used when `spec.type` is 'LoadBalancer'")];
}
