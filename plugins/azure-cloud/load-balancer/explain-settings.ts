import { type Explanation, keyOf, type Service } from "cloud-controller-host/sdk";

import { sameName } from "../arm/resource-id.ts";
import { type ConfigKeys, configSchema } from "../config/schema.ts";
import type { PlannerConfig } from "./model/planner-config.ts";
import { type Annotation, annotationPrefix, fullKey } from "./service/annotation-rows.ts";
import { annotations, portAnnotations } from "./service/annotations.ts";
import { type Subject, wantedAddresses } from "./service/subject.ts";

interface Config {
  readonly keys: ConfigKeys;
  readonly config: PlannerConfig;
}

type Key = keyof ConfigKeys;

/** Settings of the cluster that every Service has. */
const configured: readonly (readonly [
  name: string,
  value: (config: PlannerConfig) => string,
  from: (keys: ConfigKeys) => readonly Key[],
])[] = [
  ["SKU", ({ sku }) => sku, () => ["loadBalancerSku"]],
  ["pool members", ({ pools }) => pools, () => ["loadBalancerBackendPoolConfigurationType"]],
  [
    "resource group",
    (config) => config.loadBalancerResourceGroup,
    ({ loadBalancerResourceGroup: own }) => [own === "" ? "resourceGroup" : "loadBalancerResourceGroup"],
  ],
  ["security group", ({ securityGroup }) => securityGroup, () => ["securityGroupName"]],
  ["subnet", ({ virtualNetwork, subnet }) => `${virtualNetwork.name}/${subnet}`, () => ["vnetName", "subnetName"]],
];

/** A key whose value is the default may have been set to it: it has the same effect. */
function configSource(names: readonly Key[], keys: ConfigKeys): string {
  const isDefault = names.every((name) => Bun.deepEquals(keys[name], configSchema.properties[name].default));
  return `${isDefault ? "default of " : ""}config key${names.length === 1 ? "" : "s"} ${names.join(" and ")}`;
}

/** The settings of a Service with their sources, and what is wrong with them. */
export function settingsOf(service: Service, { keys, config }: Config, problems: readonly string[]): Explanation {
  const given = Object.entries(service.metadata?.annotations ?? {}).filter(([key]) => key.startsWith(annotationPrefix));
  return {
    title: `settings of ${keyOf(service)}`,
    facts: [
      ...given.map(([key, value]) => ({ name: key.slice(annotationPrefix.length), value, source: "annotation" })),
      { name: "cluster name", value: config.clusterName, source: "--cluster-name" },
      ...configured.map(([name, valueOf, from]) => ({
        name,
        value: valueOf(config),
        source: configSource(from(keys), keys),
      })),
      ...problems.map((value) => ({ name: "problem", value })),
    ],
  };
}

type Row = Annotation<unknown>;

/** The annotations that a Service has of these. */
function givenOf({ service }: Subject, rows: readonly Row[], port?: number): readonly string[] {
  const keys = rows.map((row) => fullKey(row, row.key.includes("<port>") ? port : undefined));
  return keys.filter((key) => service.metadata?.annotations?.[key] !== undefined);
}

const annotationSource = (keys: readonly string[]): string | undefined =>
  keys.length === 0
    ? undefined
    : `annotation${keys.length === 1 ? "" : "s"} ${keys.map((key) => key.slice(annotationPrefix.length)).join(", ")}`;

/** By whom an address was chosen. */
export function addressSource(subject: Subject, address: string): string {
  if (!wantedAddresses(subject).includes(address)) return "chosen by Azure";
  return annotationSource(givenOf(subject, [annotations.ipv4, annotations.ipv6])) ?? "spec.loadBalancerIP";
}

export function publicIPSource(subject: Subject, name = ""): string {
  const rows = [annotations.pipName, annotations.pipNameIPv6];
  const isNamed = rows.some((row) => sameName(subject.settings.get(row) ?? "", name));
  return (isNamed ? annotationSource(givenOf(subject, rows)) : undefined) ?? "default name";
}

/** Everything that the settings of a Service's rules come from. */
export interface RuleSettings {
  readonly subject: Subject;
  readonly config: PlannerConfig;
}

export function ruleSources({ subject, config }: RuleSettings, port: number) {
  const ofProbe = [
    annotations.probeProtocol,
    annotations.probeInterval,
    annotations.probeThreshold,
    annotations.probePath,
  ];
  const ofPort = Object.values(portAnnotations);
  const { appProtocol } = subject.ports.find((one) => one.port === port) ?? {};
  return {
    idleTimeout: annotationSource(givenOf(subject, [annotations.idleTimeout])) ?? "default",
    probe:
      annotationSource(givenOf(subject, [...ofPort, ...ofProbe], port)) ??
      (subject.local
        ? "externalTrafficPolicy: Local"
        : config.sharedProbe
          ? "config key clusterServiceLoadBalancerHealthProbeMode"
          : appProtocol === undefined
            ? "default"
            : "appProtocol of the port"),
  };
}
