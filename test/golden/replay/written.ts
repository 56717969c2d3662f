import { isObject, kinds } from "cloud-controller-host/sdk";

import { fieldChanges } from "../../../host/changes/fields.ts";
import { settingsOfObject } from "../../../host/changes/objects.ts";
import type { Change } from "../../../host/plan/changes.ts";
import { withoutTimes } from "../../../host/plan/recorded.ts";
import { type JsonObject, objectAt, objectsAt, stringAt } from "../../../plugins/azure-cloud/json.ts";
import { vmView } from "../../../plugins/azure-cloud/simulator/resources/scale-set-views.ts";
import { type Definition, definitionOf } from "../../../plugins/azure-cloud/simulator/schema/body-check.ts";
import type { AzureSimulator } from "../../../plugins/azure-cloud/simulator/simulator.ts";
import type { GoldenCluster } from "./golden-cluster.ts";

/** Everything that a host may write, by resource: without what ARM or the API server fills. */
export type WritableState = ReadonlyMap<string, JsonObject>;

type Written = Pick<Change, "action" | "resource" | "fields">;

/** What may be written, as it is now. */
export function writableState({ simulator, cluster }: GoldenCluster): WritableState {
  const objects = [...cluster.api.list(kinds.Service), ...cluster.api.list(kinds.Node)].map((object) => {
    const { namespace, name = "" } = object.metadata ?? {};
    const kind = namespace === undefined ? `Node ${name}` : `Service ${namespace}/${name}`;
    return [kind, withoutTimes(settingsOfObject({ ...object }))] as const;
  });
  const resources = [...resourcesOf(simulator)].map(
    (resource) => [String(resource["id"]).toLowerCase(), settingsOf(resource)] as const,
  );
  return new Map([...objects, ...resources]);
}

function* resourcesOf(simulator: AzureSimulator): Generator<JsonObject> {
  for (const resource of simulator.resources()) {
    const type = resource.type.toLowerCase();
    if (type === "microsoft.network/virtualnetworks") yield* objectsAt(resource.properties, "subnets");
    else yield resource;
    if (type === "microsoft.compute/virtualmachinescalesets")
      for (const instance of simulator.instances(resource.id)) yield* vmView(resource, instance);
  }
}

function settingsOf(resource: JsonObject): JsonObject {
  const { id, name: _name, type: _type, ...settings } = resource;
  const definition = definitionOf(typeOf(String(id)));
  if (definition === undefined) return settings;
  const { sku, ...rest } = withoutDefaults(writableMembers(settings, definition));
  const isDefault = definition.name === "PublicIPAddress" && isObject(sku) && sku["name"] === "Basic";
  return sku === undefined || isDefault ? rest : { ...rest, sku };
}

/** `Microsoft.Network/virtualNetworks/subnets` */
function typeOf(id: string): string {
  const [provider = "", ...rest] = id.slice(id.indexOf("/providers/") + "/providers/".length).split("/");
  return [provider, ...rest.filter((_, index) => index % 2 === 0)].join("/");
}

/** Without what ARM assumes where there is nothing. */
function withoutDefaults(settings: JsonObject): JsonObject {
  const { visibility, autoApproval, enableProxyProtocol, sku, dnsSettings, loadBalancingRules, ...rest } = settings;
  const isSet = (value: unknown): boolean => isObject(value) && Object.keys(value).length > 0;
  const { tier, ...skuSet } = isObject(sku) ? sku : {};
  const { fqdn: _fqdn, ...labels } = isObject(dnsSettings) ? dnsSettings : {};
  const rules = objectsAt(settings, "loadBalancingRules").map(({ backendAddressPools, ...rule }) => {
    const ids = isObject(backendAddressPools) || !Array.isArray(backendAddressPools) ? [] : backendAddressPools;
    const own = stringAt(objectAt(rule, "backendAddressPool"), "id");
    const isMirror = ids.length === 1 && isObject(ids[0]) && ids[0]["id"] === own;
    return backendAddressPools === undefined || isMirror ? rule : { ...rule, backendAddressPools };
  });
  const whole = { ...skuSet, ...(tier !== undefined && tier !== "Regional" && { tier }) };
  return {
    ...rest,
    ...(isSet(visibility) && { visibility }),
    ...(isSet(autoApproval) && { autoApproval }),
    ...(enableProxyProtocol === true && { enableProxyProtocol }),
    ...(isSet(labels) && { dnsSettings: labels }),
    ...(isSet(whole) && { sku: whole }),
    ...(loadBalancingRules !== undefined && { loadBalancingRules: rules }),
  };
}

/** Leaves out what the published definition calls read-only; members of `properties` stand beside the others. */
function writableMembers(object: JsonObject, definition: Definition): JsonObject {
  const entries = Object.entries(object).flatMap(([name, value]): readonly (readonly [string, unknown])[] => {
    const member = definition.members.get(name);
    if (member === undefined || member.readOnly || value === undefined || value === null || name === "etag") return [];
    const { value: type } = member;
    if (type.kind === "list" && type.item.kind === "definition" && Array.isArray(value)) {
      const inner = definition.other(type.item.name);
      const items = value.map((item: unknown) => (isObject(item) ? writableItem(item, inner) : item));
      const kept = items.filter((item) => inner.name !== "LoadBalancerBackendAddress" || !isBare(item));
      return kept.length === 0 ? [] : [[name, kept]];
    }
    if (Array.isArray(value) && value.length === 0) return [];
    if (type.kind !== "definition" || !isObject(value)) return [[name, value]];
    const inner = writableMembers(value, definition.other(type.name));
    return name === "properties" ? Object.entries(inner) : [[name, inner]];
  });
  return Object.fromEntries(entries);
}

/** An interface that ARM lists as a member of a pool: nothing of it was set there. */
const isBare = (item: unknown): boolean => isObject(item) && Object.keys(item).every((key) => key === "name");

/** An item of a list that has a name is known by it; its id says the same. */
function writableItem(item: JsonObject, definition: Definition): JsonObject {
  const { id, type: _type, name, ...rest } = item;
  const own = writableMembers(rest, definition);
  return name === undefined ? { ...(id !== undefined && { id }), ...own } : { name, ...own };
}

/** From one state to another, in the form of a plan. */
export function writesBetween(before: WritableState, after: WritableState): readonly Written[] {
  const resources = [...new Set([...before.keys(), ...after.keys()])].toSorted();
  return resources.flatMap((resource): readonly Written[] => {
    const [was, is] = [before.get(resource), after.get(resource)];
    if (Bun.deepEquals(was, is)) return [];
    const action = was === undefined ? "create" : is === undefined ? "delete" : "change";
    return [{ resource, action, fields: fieldChanges(was, is) }];
  });
}

const unknown = "(known after apply)";

/** A planned value as it was written, where that fits what is only known after apply. */
function settled(planned: unknown, written: unknown): unknown {
  if (typeof planned === "string" && planned.includes(unknown) && typeof written === "string") {
    const pattern = planned
      .split(unknown)
      .map((text) => RegExp.escape(text))
      .join("[0-9a-f.:]+");
    return new RegExp(`^${pattern}$`, "u").test(written) ? written : planned;
  }
  if (Array.isArray(planned) && Array.isArray(written)) return settledList(planned, written);
  if (!isObject(planned) || !isObject(written)) return planned;
  return Object.fromEntries(Object.entries(planned).map(([key, value]) => [key, settled(value, written[key])]));
}

/** Addresses stand in order, which one that is not known yet has no place in. */
function settledList(planned: readonly unknown[], written: readonly unknown[]): readonly unknown[] {
  if (planned.length !== written.length) return planned;
  const known = new Set(planned.filter((item) => item !== unknown && typeof item === "string"));
  if (!planned.includes(unknown)) return planned.map((item, index) => settled(item, written[index]));
  const rest = written.filter((item) => !known.has(String(item)));
  const fits = rest.length === planned.length - known.size && rest.every((item) => settled(unknown, item) === item);
  return fits ? written : planned;
}

/** Of the rule of one Service; the group is the kind of the rule. */
const priorityOf = /^securityRules\[(.+)_[0-9a-f]{32}\]\.priority$/u;

/** Services that come at the same time get their priorities in the order in which a host sees them first. */
function withPriorities(fields: Written["fields"], written: ReadonlyMap<string, unknown>): Written["fields"] {
  const kindOf = ({ path }: { readonly path: string }): string | undefined => priorityOf.exec(path)?.[1];
  const isPermuted = (kind: string): boolean => {
    const claimed = fields.filter((field) => kindOf(field) === kind);
    const planned = claimed.map(({ after }) => String(after)).toSorted();
    return Bun.deepEquals(planned, claimed.map(({ path }) => String(written.get(path))).toSorted());
  };
  const permuted = new Set(fields.flatMap((field) => kindOf(field) ?? []).filter(isPermuted));
  return fields.map((field) =>
    permuted.has(kindOf(field) ?? "") ? { ...field, after: written.get(field.path) } : field,
  );
}

/** The planned changes in the form of writes, with what is only known after apply as it was then written. */
export function plannedWrites(planned: readonly Written[], written: readonly Written[]): readonly Written[] {
  const fieldsWritten = new Map(written.map(({ resource, fields }) => [resource, fields]));
  return planned
    .map(({ action, resource, fields }) => {
      const key = resource.startsWith("/") ? resource.toLowerCase() : resource;
      const values = new Map(fieldsWritten.get(key)?.map(({ path, after }) => [path, after]));
      const given = fields.flatMap((field) => {
        if (!("after" in field)) return [field];
        // Azure may choose what it had chosen before.
        const isKept = !values.has(field.path) && Bun.deepEquals(settled(field.after, field.before), field.before);
        return isKept ? [] : [{ ...field, after: settled(field.after, values.get(field.path)) }];
      });
      return { resource: key, action, fields: withPriorities(given, values) };
    })
    .filter(({ action, fields }) => action !== "change" || fields.length > 0)
    .toSorted((one, other) => (one.resource < other.resource ? -1 : 1));
}
