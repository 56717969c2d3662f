import { type JsonObject, objectAt, objectsAt, stringAt } from "../../json.ts";
import { lastSegment } from "../resource-id.ts";

/** Lists of a load balancer whose items carry traffic, with their word. */
const carriers: Readonly<Record<string, string>> = {
  frontendIPConfigurations: "frontend",
  loadBalancingRules: "rule",
  outboundRules: "outbound rule",
};

type Compare = (before: JsonObject, after: JsonObject | undefined) => readonly string[];

/** Interruptions of traffic by a write, by type of resource in lower case. */
const compareByType: Readonly<Record<string, Compare>> = {
  "microsoft.network/loadbalancers": (before, after) => [
    ...Object.entries(carriers).flatMap(([list, word]) =>
      removed(before, after, list).map((name) => `${word} ${name} is removed`),
    ),
    ...changedAddresses(before, after),
    ...removedMembers(before, after),
  ],
  "microsoft.network/publicipaddresses": (before, after) => {
    const address = stringAt(objectAt(before, "properties"), "ipAddress");
    return after === undefined && address !== undefined ? [`address ${address} is released`] : [];
  },
  "microsoft.network/networksecuritygroups": (before, after) =>
    removed(before, after, "securityRules").map((name) => `security rule ${name} is removed`),
  "microsoft.network/routetables": (before, after) =>
    removed(before, after, "routes").map((name) => `route ${name} is removed`),
  "microsoft.network/networkinterfaces": (before, after) => leftPools(before, after),
  "microsoft.network/privatelinkservices": (_before, after) =>
    after === undefined ? ["the private link service is deleted"] : [],
};

/** `type` in lower case. */
export const interruptionsOf = (
  type: string,
  before: JsonObject | undefined,
  after: JsonObject | undefined,
): readonly string[] => (before === undefined ? [] : (compareOf(type)?.(before, after) ?? []));

/** VMs and scale sets have their interfaces in them. */
const compareOf = (type: string): Compare | undefined =>
  type.startsWith("microsoft.compute/") ? leftPools : compareByType[type];

const byName = (from: JsonObject | undefined, list: string): ReadonlyMap<string, JsonObject> =>
  new Map(objectsAt(objectAt(from, "properties"), list).map((item) => [stringAt(item, "name") ?? "", item]));

function removed(before: JsonObject, after: JsonObject | undefined, list: string): readonly string[] {
  const left = byName(after, list);
  return [...byName(before, list).keys()].filter((name) => !left.has(name));
}

function changedAddresses(before: JsonObject, after: JsonObject | undefined): readonly string[] {
  const now = byName(after, "frontendIPConfigurations");
  return [...byName(before, "frontendIPConfigurations")].flatMap(([name, frontend]) => {
    const successor = now.get(name);
    if (successor === undefined || sourceOf(frontend) === sourceOf(successor)) return [];
    return [`frontend ${name} gets another address`];
  });
}

/** Source of a frontend's address. */
function sourceOf(frontend: JsonObject): string {
  const properties = objectAt(frontend, "properties");
  const publicIP = stringAt(objectAt(properties, "publicIPAddress"), "id") ?? "";
  const subnet = stringAt(objectAt(properties, "subnet"), "id") ?? "";
  return `${publicIP} ${subnet} ${stringAt(properties, "privateIPAddress") ?? ""}`.toLowerCase();
}

/** Members of pools by address. Those of pools of interfaces leave by a write of their VM or interface. */
function removedMembers(before: JsonObject, after: JsonObject | undefined): readonly string[] {
  const now = byName(after, "backendAddressPools");
  return [...byName(before, "backendAddressPools")].flatMap(([name, pool]) => {
    const left = new Set(members(now.get(name)));
    return members(pool)
      .filter((member) => !left.has(member))
      .map((member) => `pool ${name} loses ${member}`);
  });
}

const members = (pool: JsonObject | undefined): readonly string[] =>
  objectsAt(objectAt(pool, "properties"), "loadBalancerBackendAddresses").flatMap((entry) => {
    const address = stringAt(objectAt(entry, "properties"), "ipAddress");
    return address === undefined ? [] : [address];
  });

/** Phrases for the interfaces of a VM that leave backend pools. */
function leftPools(before: JsonObject, after: JsonObject | undefined): readonly string[] {
  if (after === undefined) return [];
  const left = new Set(poolIds(after));
  return [...new Set(poolIds(before))].filter((id) => !left.has(id)).map((id) => `leaves pool ${lastSegment(id)}`);
}

function poolIds(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(poolIds);
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]: [string, unknown]) =>
    key === "loadBalancerBackendAddressPools" && Array.isArray(inner)
      ? inner.flatMap((pool: JsonObject) => (stringAt(pool, "id") ?? "").toLowerCase() || [])
      : poolIds(inner),
  );
}
