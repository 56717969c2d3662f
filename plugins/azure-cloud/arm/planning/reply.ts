import { isObject } from "cloud-controller-host/sdk";

import { type JsonObject, objectAt, objectsAt, stringAt } from "../../json.ts";
import { lastSegment } from "../resource-id.ts";

/** Creates addresses of the documentation ranges, which stand for those that Azure will choose. */
export class ChosenAddresses {
  readonly #announce: (placeholder: string) => void;
  #count = 0;

  constructor(announce: (placeholder: string) => void) {
    this.#announce = announce;
  }

  next(version: unknown): string {
    this.#count += 1;
    const address = version === "IPv6" ? `2001:db8::${this.#count.toString(16)}` : `192.0.2.${this.#count % 256}`;
    this.#announce(address);
    return address;
  }
}

/** Lists of a resource whose items are resources with ids and etags of their own. */
const childLists = [
  "backendAddressPools",
  "frontendIPConfigurations",
  "inboundNatRules",
  "ipConfigurations",
  "loadBalancingRules",
  "outboundRules",
  "probes",
  "routes",
  "securityRules",
];

/** ARM's reply to a PUT of `body`: the body with ids, etags, states, and the addresses that Azure chooses. */
export function replyTo(
  body: JsonObject,
  {
    id,
    type,
    before,
    etag,
    addresses,
  }: {
    readonly id: string;
    /** In lower case. */
    readonly type: string;
    readonly before: JsonObject | undefined;
    readonly etag: string;
    readonly addresses: ChosenAddresses;
  },
): JsonObject {
  const merged = mergesPartially(type) && before !== undefined ? merge(before, body) : body;
  const was = objectAt(before, "properties");
  const properties: Record<string, unknown> = { ...objectAt(merged, "properties"), provisioningState: "Succeeded" };
  if (type === "microsoft.network/publicipaddresses") {
    properties["ipAddress"] = stringAt(was, "ipAddress") ?? addresses.next(properties["publicIPAddressVersion"]);
    if (was?.["ipConfiguration"] !== undefined) properties["ipConfiguration"] = was["ipConfiguration"];
  }
  for (const list of childLists) {
    if (!Array.isArray(properties[list])) continue;
    const known = new Map(objectsAt(was, list).map((child) => [stringAt(child, "name"), child]));
    properties[list] = objectsAt(properties, list).map((child) => {
      const childId = `${id}/${list}/${stringAt(child, "name")}`;
      const completed = { ...child, id: childId, etag };
      return list === "frontendIPConfigurations"
        ? withAddress(completed, known.get(stringAt(child, "name")), addresses)
        : completed;
    });
  }
  return { ...merged, id, name: lastSegment(id), etag, properties };
}

/** A PUT of these merges what it names into what is there. */
const mergesPartially = (type: string): boolean => type.startsWith("microsoft.compute/");

function merge(before: JsonObject, body: JsonObject): JsonObject {
  const entries = Object.entries(body).map(([key, value]): readonly [string, unknown] => {
    const was = before[key];
    return [key, isObject(was) && isObject(value) ? merge(was, value) : value];
  });
  return { ...before, ...Object.fromEntries(entries) };
}

/** An internal frontend without an address of its own gets one from its subnet. */
function withAddress(frontend: JsonObject, before: JsonObject | undefined, addresses: ChosenAddresses): JsonObject {
  const properties = objectAt(frontend, "properties");
  const isInternal = objectAt(properties, "subnet") !== undefined;
  if (!isInternal || stringAt(properties, "privateIPAddress") !== undefined) return frontend;
  const privateIPAddress =
    stringAt(objectAt(before, "properties"), "privateIPAddress") ??
    addresses.next(properties?.["privateIPAddressVersion"]);
  return { ...frontend, properties: { ...properties, privateIPAddress } };
}
