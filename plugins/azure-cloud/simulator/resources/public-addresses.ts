import { sameName } from "../../arm/resource-id.ts";
import { type JsonObject, objectAt, stringAt } from "../../json.ts";
import { ArmFault } from "../faults.ts";
import { type Draft, draftOf, type Resource } from "../state/store.ts";
import type { SubscriptionState } from "../state/subscription-state.ts";
import { addressesIn, versionAt } from "./private-addresses.ts";
import { idAt, invalidReference, shownSku, without } from "./references.ts";
import type { ResourceType, WriteContext } from "./resource-rules.ts";

const type = "microsoft.network/publicipaddresses";

/** Immutable as long as a public IP exists. */
const immutable = ["publicIPAddressVersion", "publicIPPrefix"] as const;

function checkChange(draft: Draft, { id, previous, state }: WriteContext): void {
  if (previous === undefined) {
    const { length } = state.store.listType(state.subscription, type);
    if (length >= state.limits.publicIPAddresses)
      throw new ArmFault(
        400,
        "PublicIPCountLimitReached",
        `Cannot create more than ${state.limits.publicIPAddresses} public IP addresses for this subscription in this region.`,
      );
    return;
  }
  for (const field of immutable) {
    const [before, after] = [previous, draft].map(({ properties }) => comparable(properties, field));
    if (before !== after)
      throw new ArmFault(
        400,
        "PropertyChangeNotAllowed",
        `Changing property '${field}' of resource ${id} is not allowed.`,
      );
  }
  const zones = [previous, draft].map((resource) => JSON.stringify(resource["zones"] ?? []));
  if (zones[0] !== zones[1])
    throw new ArmFault(
      400,
      "ResourceAvailabilityZonesCannotBeModified",
      `Resource ${id} has an existing availability zone constraint ${zones[0]} and the request has availability zone constraint ${zones[1]}, which do not match. Zones cannot be added/updated/removed once the resource is created.`,
    );
}

const comparable = (properties: JsonObject, field: string): string =>
  (idAt(properties, field) ?? (field === "publicIPAddressVersion" ? versionAt(properties, field) : "")).toLowerCase();

/** Assigns an address to every static public IP, in order: 20.0.0.1, 20.0.0.2, … or the next of its prefix. */
function addressFor(draft: Draft, { id, state }: WriteContext): string {
  const version = versionAt(draft.properties, "publicIPAddressVersion");
  const prefixId = idAt(draft.properties, "publicIPPrefix");
  if (prefixId === undefined) return state.nextPublicAddress(version);
  const prefix = state.store.get(prefixId);
  const range = stringAt(prefix?.properties, "ipPrefix");
  if (prefix === undefined) throw invalidReference(prefixId, id);
  if (range === undefined) return state.nextPublicAddress(version);
  const used = new Set(
    state.store.listType(state.subscription, type).map(({ properties }) => stringAt(properties, "ipAddress")),
  );
  for (const address of addressesIn(range, 0)) if (!used.has(address)) return address;
  throw new ArmFault(400, "PublicIPPrefixOutOfIPAddresses", `Public IP prefix ${prefixId} has no free IP address.`);
}

/** The DNS name of a label, which has one address of each family (A and AAAA) in a region. */
function dnsSettings(draft: Draft, { id, state }: WriteContext): JsonObject {
  const settings = objectAt(draft.properties, "dnsSettings");
  const label = stringAt(settings, "domainNameLabel");
  if (settings === undefined || label === undefined || label === "") return {};
  const fqdn = `${label}.${state.location}.cloudapp.azure.com`.toLowerCase();
  const version = versionAt(draft.properties, "publicIPAddressVersion");
  const taken = state.store
    .listType(state.subscription, type)
    .some(
      ({ id: other, properties }) =>
        !sameName(other, id) &&
        versionAt(properties, "publicIPAddressVersion") === version &&
        stringAt(objectAt(properties, "dnsSettings"), "fqdn") === fqdn,
    );
  if (taken) throw new ArmFault(400, "DnsRecordInUse", `DNS record ${fqdn} is already used by another public IP.`);
  return { dnsSettings: { ...settings, fqdn } };
}

/** The frontend that has the address is a matter of that frontend's load balancer. */
function merge(draft: Draft, current: Resource | undefined): Draft {
  const ipConfiguration = current?.properties["ipConfiguration"];
  const written = without(draft.properties, ["ipConfiguration"]);
  return { ...draft, properties: ipConfiguration === undefined ? written : { ...written, ipConfiguration } };
}

function prepare(draft: Draft, context: WriteContext): Draft {
  const { previous, seeding } = context;
  const given = seeding ? stringAt(draft.properties, "ipAddress") : undefined;
  const merged = merge(draft, previous);
  const written: Draft = { ...merged, properties: without(merged.properties, ["ipAddress"]) };
  if (!seeding) checkChange(written, context);
  return {
    ...written,
    properties: {
      ...written.properties,
      publicIPAddressVersion: versionAt(written.properties, "publicIPAddressVersion"),
      ...dnsSettings(written, context),
      ipAddress: given ?? previous?.properties["ipAddress"] ?? addressFor(written, context),
    },
  };
}

/**
 * Updates back-references of public addresses. Both maps go from the id of an IP configuration to that of its address.
 */
export function linkPublicAddresses(
  state: SubscriptionState,
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): void {
  for (const [user, id] of before) {
    const address = state.store.get(id);
    if (address === undefined || sameName(after.get(user) ?? "", id)) continue;
    if (!sameName(idAt(address.properties, "ipConfiguration") ?? "", user)) continue;
    state.store.put(id, draftOf({ ...address, properties: without(address.properties, ["ipConfiguration"]) }));
  }
  for (const [user, id] of after) {
    const address = state.store.get(id);
    if (address === undefined || idAt(address.properties, "ipConfiguration") === user) continue;
    state.store.put(id, draftOf({ ...address, properties: { ...address.properties, ipConfiguration: { id: user } } }));
  }
}

function checkRemoval(resource: Resource): void {
  const user = idAt(resource.properties, "ipConfiguration");
  if (user !== undefined)
    throw new ArmFault(
      400,
      "PublicIPAddressCannotBeDeleted",
      `Public IP address ${resource.id} can not be deleted since it is still allocated to resource ${user}. In order to delete the public IP, disassociate/detach the Public IP address from the resource.`,
    );
}

export const publicIPAddresses: ResourceType = {
  type: "Microsoft.Network/publicIPAddresses",
  prepare,
  merge,
  checkRemoval,
  view: (address) => ({ ...address, sku: shownSku(address) }),
};

/** The next free address of a prefix. */
export const publicIPPrefixes: ResourceType = {
  type: "Microsoft.Network/publicIPPrefixes",
  checkRemoval(resource, state) {
    const user = state.store
      .listType(state.subscription, type)
      .find(({ properties }) => sameName(idAt(properties, "publicIPPrefix") ?? "", resource.id));
    if (user !== undefined)
      throw new ArmFault(
        400,
        "PublicIpPrefixInUse",
        `Public IP prefix ${resource.id} cannot be deleted because it is in use by ${user.id}.`,
      );
  },
};
