import { type JsonObject, objectAt, objectsAt, stringAt, stringsAt } from "../json.ts";
import { resourceType } from "./resources/resource-types.ts";

export interface ShownService {
  readonly uid: string;
  /** Its addresses, from its status. */
  readonly addresses: readonly string[];
}

const textAt = (from: JsonObject | undefined, key: string): string => stringAt(from, key) ?? "";

type Lines = readonly string[];
/** True for a part of a resource that is shown. */
type Selects = (part: JsonObject) => boolean;

/** The resources of a subscription, one line each with their parts below; for a Service, those with its name or address. */
export function showResources(resources: readonly JsonObject[], service: ShownService | undefined): Lines {
  const addresses = new Map(
    resources.map((resource) => [idOf(resource), textAt(objectAt(resource, "properties"), "ipAddress")]),
  );
  const { selects, selectsRule } = selectionOf(resources, service);
  return resources.flatMap((resource) => {
    const type = textAt(resource, "type").split("/").at(-1)?.toLowerCase() ?? "";
    const properties = objectAt(resource, "properties") ?? {};
    const parts = partsOf[type]?.(properties, { selects, selectsRule, addresses }) ?? [];
    if (service !== undefined && parts.length === 0 && !selects(resource)) return [];
    return [
      `${nameOfType(resource)}/${textAt(resource, "name")}${detail(resource)}`,
      ...parts.map((line) => `  ${line}`),
    ];
  });
}

interface Selection {
  readonly selects: Selects;
  readonly selectsRule: Selects;
  /** Addresses by the id of their public IP. */
  readonly addresses: ReadonlyMap<string, string>;
}

/** Parts that begin with the Service's name in Azure, and frontends and addresses that they refer to. */
function selectionOf(
  resources: readonly JsonObject[],
  service: ShownService | undefined,
): Omit<Selection, "addresses"> {
  if (service === undefined) return { selects: () => true, selectsRule: () => true };
  const prefix = `a${service.uid.replaceAll("-", "")}`.slice(0, 32);
  const isOwn: Selects = (part) => textAt(part, "name").startsWith(prefix);
  const own = resources.flatMap((resource) =>
    objectsAt(objectAt(resource, "properties"), "loadBalancingRules").filter(isOwn),
  );
  const frontends = new Set(own.map((rule) => idOf(objectAt(objectAt(rule, "properties"), "frontendIPConfiguration"))));
  const selects: Selects = (part) => {
    const used = idOf(objectAt(objectAt(part, "properties"), "ipConfiguration"));
    return isOwn(part) || frontends.has(idOf(part)) || frontends.has(used);
  };
  const selectsRule: Selects = (rule) =>
    destinationsOf(objectAt(rule, "properties") ?? {}).some((destination) => service.addresses.includes(destination));
  return { selects, selectsRule };
}

const idOf = (reference: JsonObject | undefined): string => textAt(reference, "id").toLowerCase();
const lastOf = (reference: JsonObject | undefined): string => textAt(reference, "id").split("/").at(-1) ?? "";
/** In ARM's spelling: a resource has the type as its first request spelled it. */
function nameOfType(resource: JsonObject): string {
  const spelled = textAt(resource, "type");
  return (resourceType(spelled)?.type ?? spelled).split("/").at(-1) ?? "";
}

function detail(resource: JsonObject): string {
  const address = textAt(objectAt(resource, "properties"), "ipAddress");
  const owner = textAt(objectAt(resource, "tags"), "k8s-azure-service");
  const facts = [textAt(objectAt(resource, "sku"), "name"), address, owner === "" ? "" : `of ${owner}`];
  const shown = facts.filter((fact) => fact !== "");
  return shown.length === 0 ? "" : `  ${shown.join(", ")}`;
}

/** Lines for the parts of a resource, by its type in lower case. */
const partsOf: Readonly<Record<string, (properties: JsonObject, selection: Selection) => Lines>> = {
  loadbalancers: (properties, { selects, addresses }) => [
    ...objectsAt(properties, "frontendIPConfigurations")
      .filter(selects)
      .map((frontend) => `frontend ${textAt(frontend, "name")}: ${addressOf(frontend, addresses)}`),
    ...objectsAt(properties, "loadBalancingRules").filter(selects).map(ruleLine),
    ...objectsAt(properties, "probes").filter(selects).map(probeLine),
    ...objectsAt(properties, "backendAddressPools")
      .filter((pool) => usedBy(pool, properties, selects))
      .map((pool) => {
        const members = objectsAt(objectAt(pool, "properties"), "backendIPConfigurations").length;
        return `pool ${textAt(pool, "name")}: ${members} of the VMs`;
      }),
  ],
  networksecuritygroups: (properties, { selectsRule }) =>
    objectsAt(properties, "securityRules").filter(selectsRule).map(securityRuleLine),
  routetables: (properties, { selects }) =>
    objectsAt(properties, "routes")
      .filter(selects)
      .map((route) => {
        const { addressPrefix, nextHopIpAddress } = objectAt(route, "properties") ?? {};
        return `route ${textAt(route, "name")}: ${text(addressPrefix)} to ${text(nextHopIpAddress)}`;
      }),
};

const usedBy = (pool: JsonObject, balancer: JsonObject, selects: Selects): boolean =>
  objectsAt(balancer, "loadBalancingRules")
    .filter(selects)
    .some((rule) => idOf(objectAt(objectAt(rule, "properties"), "backendAddressPool")) === idOf(pool));

function addressOf(frontend: JsonObject, addresses: ReadonlyMap<string, string>): string {
  const properties = objectAt(frontend, "properties");
  const address = addresses.get(idOf(objectAt(properties, "publicIPAddress")));
  return address ?? textAt(properties, "privateIPAddress");
}

function ruleLine(rule: JsonObject): string {
  const properties = objectAt(rule, "properties") ?? {};
  const { protocol, frontendPort, backendPort, enableFloatingIP } = properties;
  const floating = enableFloatingIP === true ? ", floating IP" : "";
  const frontend = lastOf(objectAt(properties, "frontendIPConfiguration"));
  return `rule ${textAt(rule, "name")}: ${text(protocol)} ${text(frontendPort)} to ${text(backendPort)}${floating}, at ${frontend}`;
}

function probeLine(probe: JsonObject): string {
  const { protocol, port, requestPath } = objectAt(probe, "properties") ?? {};
  return `probe ${textAt(probe, "name")}: ${text(protocol)} ${text(port)}${text(requestPath)}`;
}

function securityRuleLine(rule: JsonObject): string {
  const properties = objectAt(rule, "properties") ?? {};
  const { priority, access, protocol } = properties;
  const sources = both(properties, "sourceAddressPrefix", "sourceAddressPrefixes").join(" ");
  const ports = both(properties, "destinationPortRange", "destinationPortRanges").join(" ");
  const destinations = destinationsOf(properties).join(" ");
  return `rule ${text(priority)} ${text(access)} ${text(protocol)} from ${sources} to ${destinations} ports ${ports}`;
}

const destinationsOf = (properties: JsonObject): readonly string[] =>
  both(properties, "destinationAddressPrefix", "destinationAddressPrefixes");

/** The values of a field for one value and of its sibling for several. */
const both = (properties: JsonObject, one: string, several: string): readonly string[] =>
  [textAt(properties, one), ...stringsAt(properties, several)].filter((value) => value !== "");

const text = (value: unknown): string => (typeof value === "string" || typeof value === "number" ? String(value) : "");
