import { defaultLoadBalancerName, isObject, type Service } from "cloud-controller-host/sdk";
import ipaddr from "ipaddr.js";

import { type JsonObject, objectAt, objectsAt, stringAt } from "../../../plugins/azure-cloud/json.ts";
import { type GoldenCase, type RecordedEvent, stepsOf } from "./cases.ts";
import type { Snapshot } from "./snapshot.ts";

const prefix = "service.beta.kubernetes.io/";

export const failure = (name: string): string => `${name} Warning SyncLoadBalancerFailed`;

export const annotationOf = ({ metadata }: Service, key: string): string | undefined =>
  metadata?.annotations?.[`${prefix}${key}`];

const nameOf = ({ metadata }: Service): string => metadata?.name ?? "";

/** Every Service of a case by name, as it was in each step. */
export const servicesOf = (golden: GoldenCase): ReadonlyMap<string, readonly Service[]> =>
  Map.groupBy(
    stepsOf(golden).flatMap(([, { services = [] }]) => services),
    nameOf,
  );

/** Both providers write until Azure rejects a request. */
export const isRejection = ({ message = "" }: RecordedEvent): boolean => /RESPONSE [45]\d\d/u.test(message);

/** Services that were refused from the start, and those that the Go provider could not remove any more. */
export function refusedServices(recorded: Snapshot, golden: GoldenCase): readonly Service[] {
  const failures = stepsOf(golden).flatMap(([, { events = [] }]) =>
    events.filter(({ reason }) => reason === "SyncLoadBalancerFailed"),
  );
  const everFailed = new Set(failures.map(({ object }) => object));
  const rejected = new Set(failures.filter(isRejection).map(({ object }) => object));
  return [...servicesOf(golden)].flatMap(([name, [service]]) => {
    const now = recorded.services[name];
    const isRefused = isObject(now)
      ? recorded.events.includes(failure(name)) && ingressOf(now).length === 0 && !rejected.has(name)
      : everFailed.has(name);
    return isRefused && service !== undefined ? [service] : [];
  });
}

const ingressOf = (service: JsonObject): readonly unknown[] =>
  Array.isArray(service["ingress"]) ? service["ingress"] : [];

type Invalid = (text: string) => boolean;

const isOutside =
  (least: number, max: number): Invalid =>
  (text) =>
    !/^[+-]?\d+$/u.test(text.trim()) || Number(text) < least || Number(text) > max;

/** Values that are invalid whether or not the Go provider looks at them, and those that Azure rejects. */
const invalidValues: Readonly<Record<string, Invalid>> = {
  "azure-allowed-service-tags": (text) => text.split(",").some((tag) => tag.trim() === ""),
  "azure-dns-label-name": (text) => text !== "" && !/^[a-z][a-z0-9-]{1,61}[a-z0-9]$/u.test(text.trim().toLowerCase()),
  "azure-pip-prefix-id": (text) => text.trim() !== "" && !text.trim().startsWith("/"),
  "azure-load-balancer-tcp-idle-timeout": isOutside(4, 100),
  "azure-load-balancer-health-probe-interval": isOutside(5, 2 ** 31 - 1),
  "azure-load-balancer-health-probe-num-of-probe": isOutside(2, 2 ** 31 - 1),
  "azure-pls-ip-configuration-ip-address-count": isOutside(1, 8),
};

const isAddress = (text = ""): boolean => text === "" || ipaddr.isValid(text);

/** No public IP has addresses of two families. */
const hasOneNameForTwo = (service: Service): boolean => {
  const [name, other] = [annotationOf(service, "azure-pip-name"), annotationOf(service, "azure-pip-name-ipv6")];
  return name !== undefined && name === other && service.spec?.ipFamilies?.length === 2;
};

/** The Go provider writes a probe of port 0. */
const probesNoPort = ({ spec }: Service): boolean =>
  spec?.allocateLoadBalancerNodePorts === false &&
  spec.externalTrafficPolicy !== "Local" &&
  spec.ports?.some(({ protocol, nodePort }) => protocol === "TCP" && nodePort === undefined) === true;

const isInvalid = (service: Service): boolean =>
  hasOneNameForTwo(service) || probesNoPort(service) || hasInvalidValue(service);

const hasInvalidValue = ({ metadata, spec }: Service): boolean =>
  !isAddress(spec?.loadBalancerIP) ||
  Object.entries(metadata?.annotations ?? {}).some(
    ([key, text]) => invalidValues[key.replace(prefix, "")]?.(text) === true,
  );

/** Services that have an invalid annotation from first to last. */
export const invalidServices = (golden: GoldenCase): readonly Service[] =>
  [...servicesOf(golden).values()].flatMap((versions) => (versions.every(isInvalid) ? versions.slice(0, 1) : []));

/** A snapshot in which these Services were refused. */
export function refused(recorded: Snapshot, services: readonly Service[]): Snapshot {
  const names = new Set(services.map(nameOf));
  const changed = (event: string): string | undefined => {
    const [name = "", , reason] = event.split(" ");
    if (!names.has(name)) return event;
    if (reason === "CreateOrUpdatePublicIPAddress") return undefined;
    return reason === "EnsuredLoadBalancer" ? failure(name) : event;
  };
  const without = services.reduce(withoutResourcesOf, recorded);
  return {
    ...without,
    services: Object.fromEntries(
      Object.entries(recorded.services).map(([name, service]) => [
        name,
        names.has(name) && isObject(service) ? { ...service, ingress: [] } : service,
      ]),
    ),
    events: recorded.events.flatMap((event) => changed(event) ?? []).toSorted(),
  };
}

/** A snapshot without the frontends, rules, probes and addresses of a Service, and the load balancers of it alone. */
export function withoutResourcesOf(recorded: Snapshot, service: Service): Snapshot {
  const owner = `default/${nameOf(service)}`;
  const { arm } = withoutResourcesOn(recorded, service, () => true);
  const isLeft = ([id, value]: readonly [string, unknown]): boolean =>
    !(/\/(?:publicipaddresses|privatelinkservices)\//u.test(id) && isOwned(value, owner));
  return { ...recorded, arm: Object.fromEntries(Object.entries(arm).filter(isLeft)) };
}

/** A snapshot without the frontends, rules and probes of a Service on some load balancers, and those of it alone. */
export function withoutResourcesOn(
  recorded: Snapshot,
  service: Service,
  isMeant: (balancerId: string) => boolean,
): Snapshot {
  const base = defaultLoadBalancerName(service);
  const arm = Object.entries(recorded.arm).map(
    ([id, value]) => [id, isBalancer(id) && isMeant(id) ? withoutChildren(value, base) : value] as const,
  );
  const abandoned = arm.filter(([id, value]) => isBalancer(id) && isAbandoned(value)).map(([id]) => id);
  return {
    ...recorded,
    arm: Object.fromEntries(
      arm.flatMap(([id, value]) => {
        const kept = isMachine(id) ? withoutPools(value, abandoned) : value;
        return kept === undefined || abandoned.includes(id) ? [] : [[id, kept]];
      }),
    ),
  };
}

const isBalancer = (id: string): boolean => id.includes("/loadbalancers/");
const isMachine = (id: string): boolean => /\/(?:virtualmachines|networkinterfaces)\//u.test(id);

const isAbandoned = (balancer: unknown): boolean =>
  isObject(balancer) && objectsAt(objectAt(balancer, "properties"), "frontendIPConfigurations").length === 0;

function isOwned(resource: unknown, owner: string): boolean {
  const tags = isObject(resource) ? objectAt(resource, "tags") : undefined;
  return [stringAt(tags, "k8s-azure-service"), stringAt(tags, "k8s-azure-owner-service")].includes(owner);
}

function withoutChildren(value: unknown, base: string): unknown {
  if (!isObject(value)) return value;
  const properties = objectAt(value, "properties") ?? {};
  const isOther = (child: JsonObject): boolean => stringAt(child, "name")?.startsWith(base) !== true;
  const rules = objectsAt(properties, "loadBalancingRules").filter(isOther);
  const isUsed = (frontend: JsonObject): boolean =>
    JSON.stringify(rules).includes(`/frontendipconfigurations/${stringAt(frontend, "name")}"`);
  const children = {
    frontendIPConfigurations: objectsAt(properties, "frontendIPConfigurations").filter(
      (frontend) => isOther(frontend) || isUsed(frontend),
    ),
    loadBalancingRules: rules,
    probes: objectsAt(properties, "probes").filter(isOther),
  };
  // A snapshot has no empty arrays.
  const kept = Object.entries({ ...properties, ...children }).filter(
    ([, items]) => !Array.isArray(items) || items.length > 0,
  );
  return { ...value, properties: Object.fromEntries(kept) };
}

/** Pools by IP configuration without those of the load balancers; undefined where none is left. */
function withoutPools(pools: unknown, balancers: readonly string[]): unknown {
  if (!isObject(pools)) return pools;
  const isKept = (pool: unknown): boolean => !balancers.some((id) => String(pool).startsWith(`${id}/`));
  const kept = Object.entries(pools)
    .map(([name, ids]) => [name, Array.isArray(ids) ? ids.filter(isKept) : ids] as const)
    .filter(([, ids]) => !Array.isArray(ids) || ids.length > 0);
  return kept.length === 0 ? undefined : Object.fromEntries(kept);
}
