import { isObject, type Service } from "cloud-controller-host/sdk";
import ipaddr from "ipaddr.js";

import { type JsonObject, objectAt, objectsAt, stringAt, stringsAt } from "../../../plugins/azure-cloud/json.ts";
import { type GoldenCase, type RecordedStep, stepsOf } from "./cases.ts";
import { annotationOf, failure } from "./refused.ts";
import { nodesOf } from "./seed.ts";
import { type Snapshot, snapshotOf } from "./snapshot.ts";

/** What the rules of a security group are for. */
interface State {
  readonly recorded: Snapshot;
  readonly golden: GoldenCase;
  readonly step: RecordedStep;
}

type Group = Readonly<Record<string, unknown>>;

const rulesOf = (group: Group): readonly JsonObject[] => objectsAt(objectAt(group, "properties"), "securityRules");

const withRules = (group: Group, securityRules: readonly JsonObject[]): Group => ({
  ...group,
  properties: { ...objectAt(group, "properties"), securityRules },
});

const isManaged = (rule: JsonObject): boolean => (stringAt(rule, "name") ?? "").startsWith("k8s-azure-lb_");

function destinationsOf(rule: JsonObject): readonly unknown[] {
  const inner = objectAt(rule, "properties") ?? {};
  const many = inner["destinationAddressPrefixes"];
  return Array.isArray(many) ? many : [inner["destinationAddressPrefix"]];
}

function withDestinations(rule: JsonObject, destinations: readonly unknown[]): JsonObject {
  const {
    destinationAddressPrefix: _one,
    destinationAddressPrefixes: _many,
    ...others
  } = objectAt(rule, "properties") ?? {};
  const [only] = destinations;
  const written =
    destinations.length === 1 ? { destinationAddressPrefix: only } : { destinationAddressPrefixes: destinations };
  return { ...rule, properties: { ...others, ...written } };
}

/** The group without stale destinations in managed rules, and without managed rules that have only those. */
export function withoutStaleRules(group: unknown, state: State): unknown {
  if (!isObject(group)) return group;
  return withRules(
    group,
    rulesOf(group).flatMap((rule) => {
      if (!isManaged(rule)) return [rule];
      const all = destinationsOf(rule);
      const kept = all.filter((destination) => !isStale(destination, rule, state));
      if (kept.length === all.length) return [rule];
      return kept.length === 0 ? [] : [withDestinations(rule, kept)];
    }),
  );
}

/** True unless the address belongs to a Service with a port of the rule, or to a node that gets its traffic. */
function isStale(destination: unknown, rule: JsonObject, state: State): boolean {
  if (typeof destination !== "string") return false;
  const services = state.step.services ?? [];
  if (!isNode(destination, state)) {
    const holders = services.filter((service) => ingressOf(service, state).includes(destination));
    return !holders.some((service) => isOpenFor(service, rule, state));
  }
  const withoutFloatingIP = services.filter((service) => isTrue(service, "azure-disable-load-balancer-floating-ip"));
  return isIdle(destination, state) || !withoutFloatingIP.some((service) => isOpenFor(service, rule, state));
}

/** The ingress addresses of a Service in the snapshot. */
function ingressOf({ metadata }: Service, { recorded }: State): readonly string[] {
  const service = recorded.services[metadata?.name ?? ""];
  return isObject(service) ? stringsAt(service, "ingress") : [];
}

/** Also true for a Service whose last change was refused: it keeps the ports that it had. */
function isOpenFor({ metadata, spec }: Service, rule: JsonObject, { recorded }: State): boolean {
  if (recorded.events.includes(failure(metadata?.name ?? ""))) return true;
  const properties = objectAt(rule, "properties");
  const transport = (stringAt(properties, "protocol") ?? "*").toUpperCase();
  const ports = stringsAt(properties, "destinationPortRanges");
  return (
    ports.length === 0 ||
    (spec?.ports ?? []).some(
      ({ protocol = "TCP", port, nodePort }) =>
        ["*", protocol].includes(transport) && [port, nodePort ?? 0].some((one) => ports.includes(`${one}`)),
    )
  );
}

const nodeAt = (address: string, golden: GoldenCase) =>
  nodesOf(golden).find(({ addresses }) =>
    addresses.some((one) => one.type === "InternalIP" && one.address === address),
  );

const isNode = (destination: string, { golden }: State): boolean => nodeAt(destination, golden) !== undefined;

/** True if the node with the address is in no backend pool. */
function isIdle(address: string, { recorded: { arm }, golden }: State): boolean {
  const instance = (nodeAt(address, golden)?.providerID ?? "").replace("azure://", "").toLowerCase();
  const nic = `/networkinterfaces/${instance.slice(instance.lastIndexOf("/") + 1)}-nic`;
  const isMember = Object.keys(arm).some((id) => id === instance || id.endsWith(nic));
  return !isMember && !JSON.stringify(arm).includes(`"ipAddress":"${address}"`);
}

/** The group with the address of a node that came back in every rule with the addresses of other nodes. */
export function withReturnedAddress(group: unknown, { golden }: Pick<State, "golden">, address: string): unknown {
  if (!isObject(group)) return group;
  const isOther = (one: unknown): boolean => typeof one === "string" && nodeAt(one, golden) !== undefined;
  return withRules(
    group,
    rulesOf(group).map((rule) => {
      const all = destinationsOf(rule);
      if (!isManaged(rule) || all.includes(address) || !all.some(isOther)) return rule;
      return withDestinations(rule, [...all, address].toSorted(byText));
    }),
  );
}

const isTrue = (service: Service, key: string): boolean => annotationOf(service, key)?.toLowerCase() === "true";

const rangesOf = (service: Service): readonly string[] =>
  [
    ...(service.spec?.loadBalancerSourceRanges ?? []),
    ...["azure-allowed-ip-ranges", "load-balancer-source-ranges"].flatMap(
      (key) => annotationOf(service, key)?.split(",") ?? [],
    ),
  ].filter((range) => range !== "");

const hasInvalidRange = (service: Service): boolean =>
  rangesOf(service).some((range) => !ipaddr.isValidCIDR(range.trim()));

/** A snapshot with a warning for each Service with a range that is not a CIDR. */
export function withInvalidRanges(recorded: Snapshot, { services = [] }: RecordedStep): Snapshot {
  const events = services
    .filter(hasInvalidRange)
    .map(({ metadata }) => `${metadata?.name} Warning InvalidConfiguration`);
  return { ...recorded, events: [...recorded.events, ...events].toSorted() };
}

/** Everything is denied where a range is not a CIDR, too. */
const denies = (service: Service): boolean =>
  hasInvalidRange(service) ||
  (isTrue(service, "azure-deny-all-except-load-balancer-source-ranges") && rangesOf(service).length > 0);

/** The group with the addresses of Services that deny everything else in the rule for that, shared ones included. */
export function withDeniedShared(group: unknown, state: State): unknown {
  const { services = [] } = state.step;
  if (!isObject(group)) return group;
  const denying = services.filter(denies);
  const shared = denying
    .flatMap((one) => ingressOf(one, state))
    .filter((address) => isEverShared(address, state.golden));
  const name = "k8s-azure-lb_deny-all_IPv4";
  const present = rulesOf(group).find((rule) => rule["name"] === name);
  const all = [...new Set([...(present === undefined ? [] : destinationsOf(present)), ...shared])].toSorted(byText);
  if (shared.length === 0 || all.length === (present === undefined ? 0 : destinationsOf(present).length)) return group;
  const rule = withDestinations(present ?? { name, properties: denyAll }, all);
  return withRules(group, [...rulesOf(group).filter((one) => one !== present), rule].toSorted(byText));
}

/** Also one whose other Services are deleted by now. */
const isEverShared = (address: string, golden: GoldenCase): boolean =>
  stepsOf(golden).some(([, step]) => {
    const services = Object.values(snapshotOf(step).services);
    return services.filter((one) => isObject(one) && stringsAt(one, "ingress").includes(address)).length > 1;
  });

const denyAll = {
  access: "Deny",
  destinationPortRange: "*",
  direction: "Inbound",
  priority: 4095,
  protocol: "*",
  sourceAddressPrefix: "*",
  sourcePortRange: "*",
};

/** The order of items in a snapshot. */
const byText = (one: unknown, other: unknown): number => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1);
