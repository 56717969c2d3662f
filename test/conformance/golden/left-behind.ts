import { defaultLoadBalancerName, type Service } from "cloud-controller-host/sdk";

import { isObject, objectAt, objectsAt, stringAt } from "../../../plugins/azure-cloud/json.ts";
import type { GoldenCase, RecordedStep } from "./cases.ts";
import { annotationOf, failure, withoutResourcesOn } from "./refused.ts";
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

/** The last of several tags of one type applies, as in the Go provider. */
function tagsIn(text: string): readonly unknown[] {
  const pairs = text.split(",").flatMap((pair) => {
    const [type = "", tag = "", ...more] = pair.split("=").map((part) => part.trim());
    return type === "" || tag === "" || more.length > 0 ? [] : [[type, tag] as const];
  });
  return [...new Map(pairs)].map(([ipTagType, tag]) => ({ ipTagType, tag }));
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
