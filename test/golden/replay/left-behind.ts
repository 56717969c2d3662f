import { defaultLoadBalancerName, isObject, type Service } from "cloud-controller-host/sdk";

import { objectAt, objectsAt, stringAt } from "../../../plugins/azure-cloud/json.ts";
import { excludedLabel, type GoldenCase, nodesAfter, type RecordedStep } from "./cases.ts";
import { annotationOf, failure, withoutResourcesOn } from "./refused.ts";
import { withReturnedAddress } from "./security-rules.ts";
import type { Snapshot } from "./snapshot.ts";

const nameOf = ({ metadata }: Service): string => metadata?.name ?? "";

/** A snapshot in which a Service that became internal or external has left the load balancer of the other kind. */
export function withoutOtherKind(recorded: Snapshot, step: RecordedStep): Snapshot {
  return (step.services ?? [])
    .filter((service) => !recorded.events.includes(failure(nameOf(service))))
    .reduce((snapshot, service) => {
      const internal = annotationOf(service, "azure-load-balancer-internal") === "true";
      const isHere = (id: string): boolean => id.endsWith("-internal") !== internal;
      return hasFrontend(snapshot, service, (id) => !isHere(id))
        ? withoutResourcesOn(snapshot, service, isHere)
        : snapshot;
    }, recorded);
}

const hasFrontend = ({ arm }: Snapshot, service: Service, isOn: (id: string) => boolean): boolean =>
  Object.entries(arm).some(
    ([id, value]) =>
      id.includes("/loadbalancers/") &&
      isOn(id) &&
      isObject(value) &&
      objectsAt(objectAt(value, "properties"), "frontendIPConfigurations").some(
        ({ name }) => name === defaultLoadBalancerName(service),
      ),
  );

/** A snapshot in which public IPs of the provider have the IP tags of the annotation. */
export function withIPTags(recorded: Snapshot, golden: GoldenCase, step: RecordedStep): Snapshot {
  if (golden.cloudConfig["enableIPTagMutationForExistingPublicIP"] === true) return recorded;
  return (step.services ?? []).reduce((snapshot, service) => {
    const text = annotationOf(service, "azure-pip-ip-tags");
    const id = Object.keys(snapshot.arm).find((key) => isPublicIPOf(snapshot.arm[key], service));
    const publicIP = id === undefined ? undefined : snapshot.arm[id];
    if (text === undefined || id === undefined || !isObject(publicIP)) return snapshot;
    const { ipTags: before = [], ...properties } = objectAt(publicIP, "properties") ?? {};
    const ipTags = tagsIn(text);
    if (Bun.deepEquals(before, ipTags)) return snapshot;
    const after = { ...publicIP, properties: { ...properties, ...(ipTags.length === 0 ? {} : { ipTags }) } };
    const events = snapshot.events.filter((event) => event !== failure(nameOf(service)));
    return { ...snapshot, arm: { ...snapshot.arm, [id]: after }, events };
  }, recorded);
}

function isPublicIPOf(resource: unknown, service: Service): boolean {
  const tags = isObject(resource) ? objectAt(resource, "tags") : undefined;
  return stringAt(tags, "k8s-azure-service") === `default/${nameOf(service)}`;
}

/** The last of several tags of one type applies, as in the Go provider. In the order and form of a snapshot. */
function tagsIn(text: string): readonly unknown[] {
  const pairs = text.split(",").flatMap((pair) => {
    const [type = "", tag = "", ...more] = pair.split("=").map((part) => part.trim());
    return tag === "" || more.length > 0 ? [] : [[type, tag] as const];
  });
  return [...new Map(pairs)]
    .map(([ipTagType, tag]) => ({ ...(ipTagType === "" ? {} : { ipTagType }), tag }))
    .toSorted((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1));
}

/** A snapshot with a warning for each Service whose mode has no effect on a standard load balancer. */
export function withIgnoredModes(
  recorded: Snapshot,
  { cloudConfig }: GoldenCase,
  { services = [] }: RecordedStep,
): Snapshot {
  if (String(cloudConfig["loadBalancerSku"]).toLowerCase() === "basic") return recorded;
  const events = services
    .filter((one) => (annotationOf(one, "azure-load-balancer-mode") ?? "") !== "")
    .filter((one) => recorded.events.includes(`${nameOf(one)} Normal EnsuredLoadBalancer`))
    .map((one) => `${nameOf(one)} Warning AnnotationIgnored`);
  return { ...recorded, events: [...recorded.events, ...events].toSorted() };
}

type Resource = Readonly<Record<string, unknown>>;

/** A snapshot with its load balancers changed. */
const withBalancers = (recorded: Snapshot, change: (balancer: Resource) => Resource): Snapshot => ({
  ...recorded,
  arm: Object.fromEntries(
    Object.entries(recorded.arm).map(([id, value]) => [
      id,
      id.includes("/loadbalancers/") && isObject(value) ? change(value) : value,
    ]),
  ),
});

/** A snapshot without shared probes that no rule refers to. */
export const withoutUnusedProbe = (recorded: Snapshot): Snapshot =>
  withBalancers(recorded, (balancer) => {
    const { probes: all = [], ...properties } = objectAt(balancer, "properties") ?? {};
    const isUsed = JSON.stringify(properties).includes(`/probes/${sharedProbe}"`);
    const probes = Array.isArray(all) ? all.filter((one: unknown) => isUsed || nameIn(one) !== sharedProbe) : [];
    return { ...balancer, properties: { ...properties, ...(probes.length === 0 ? {} : { probes }) } };
  });

const sharedProbe = "cluster-service-shared-health-probe";

const nameIn = (item: unknown): string | undefined => (isObject(item) ? stringAt(item, "name") : undefined);

/** A snapshot in which pools of node addresses have that of a node which came back, and so have the security rules. */
export function withReturnedNode(recorded: Snapshot, golden: GoldenCase, step: RecordedStep): Snapshot {
  const { cloudConfig, nodes = [], steps } = golden;
  const names = Object.keys(steps);
  const [returned, now] = [names.indexOf("afterNodeReturns"), names.findIndex((name) => steps[name] === step)];
  const third = nodes[2];
  const ipAddress = third?.addresses.find(({ type }) => type === "InternalIP")?.address;
  const isByAddress = cloudConfig["loadBalancerBackendPoolConfigurationType"] === "nodeIP";
  const isSeveral = cloudConfig["multipleStandardLoadBalancerConfigurations"] !== undefined;
  if (!isByAddress || isSeveral || returned < 0 || now < returned || ipAddress === undefined) return recorded;
  const member = { name: third?.name, properties: { ipAddress } };
  const withMember = withBalancers(recorded, (balancer) => {
    const properties = objectAt(balancer, "properties") ?? {};
    const backendAddressPools = objectsAt(properties, "backendAddressPools").map((pool) => {
      const inner = objectAt(pool, "properties") ?? {};
      const members = objectsAt(inner, "loadBalancerBackendAddresses");
      if (members.length === 0 || members.some(({ name }) => name === member.name)) return pool;
      return { ...pool, properties: { ...inner, loadBalancerBackendAddresses: [...members, member] } };
    });
    return { ...balancer, properties: { ...properties, backendAddressPools } };
  });
  const arm = Object.entries(withMember.arm).map(([id, value]) => [
    id,
    id.includes("/networksecuritygroups/") ? withReturnedAddress(value, { golden }, ipAddress) : value,
  ]);
  return { ...withMember, arm: Object.fromEntries(arm) };
}

/** A snapshot in which network interfaces of nodes that take no traffic are in no pool. */
export function withoutDepartedNodes(recorded: Snapshot, golden: GoldenCase, step: RecordedStep): Snapshot {
  const { cloudConfig, nodes = [] } = golden;
  const isNamed = (stringAt(cloudConfig, "loadBalancerName") ?? "") !== "";
  if (stringAt(cloudConfig, "vmType") !== "standard" || !isNamed) return recorded;
  const staying = nodesAfter(golden, step).filter(({ labels = {} }) => labels[excludedLabel] === undefined);
  const names = new Set(staying.map(({ name }) => name));
  const departed = nodes.filter(({ name }) => !names.has(name)).map(({ name }) => `/networkinterfaces/${name}-nic`);
  const isLeft = ([id]: readonly [string, unknown]): boolean => !departed.some((ending) => id.endsWith(ending));
  return { ...recorded, arm: Object.fromEntries(Object.entries(recorded.arm).filter(isLeft)) };
}
