import ipaddr from "ipaddr.js";

import { sameName } from "../../arm/resource-id.ts";
import { objectsAt, stringAt, stringsAt } from "../../json.ts";
import { ArmFault } from "../faults.ts";
import type { SubscriptionState } from "../state/subscription-state.ts";
import { ipConfigurationsOf } from "./ip-configurations.ts";
import { idAt, invalidReference, nameOf, parentId, propertiesOf } from "./references.ts";

type IpVersion = "IPv4" | "IPv6";

export const versionAt = (properties: Readonly<Record<string, unknown>>, key: string): IpVersion =>
  properties[key] === "IPv6" ? "IPv6" : "IPv4";

/** Azure reserves the first four addresses of a subnet. */
const reserved = 4;

const bytesToNumber = (bytes: readonly number[]): bigint => bytes.reduce((sum, byte) => (sum << 8n) + BigInt(byte), 0n);

function numberToAddress(value: bigint, length: number): string {
  const bytes = Array.from({ length }, (_, index) => Number((value >> BigInt(8 * (length - 1 - index))) & 255n));
  return ipaddr.fromByteArray(bytes).toString();
}

/** An address in canonical form, for comparison. */
const canonical = (address: string): string => (ipaddr.isValid(address) ? ipaddr.parse(address).toString() : address);

/** The addresses of a range in order, without those that Azure reserves. */
export function* addressesIn(prefix: string, skipped = reserved): Generator<string> {
  const [network, bits] = ipaddr.parseCIDR(prefix);
  const bytes = network.toByteArray();
  const size = 1n << BigInt(bytes.length * 8 - bits);
  const first = (bytesToNumber(bytes) / size) * size;
  for (let offset = BigInt(skipped); offset < size; offset++) yield numberToAddress(first + offset, bytes.length);
}

function isIn(address: string, prefix: string): boolean {
  const parsed = ipaddr.parse(address);
  const [network, bits] = ipaddr.parseCIDR(prefix);
  return parsed.kind() === network.kind() && parsed.match(network, bits);
}

/** The address ranges of a subnet of one version. A subnet that does not exist is refused. */
function prefixesOf(state: SubscriptionState, subnetId: string, owner: string, version: IpVersion): readonly string[] {
  const vnet = state.store.get(parentId(subnetId));
  const subnet = objectsAt(vnet?.properties, "subnets").find((candidate) =>
    sameName(nameOf(candidate), subnetId.slice(subnetId.lastIndexOf("/") + 1)),
  );
  if (subnet === undefined) throw invalidReference(subnetId, owner);
  const properties = propertiesOf(subnet);
  const single = stringAt(properties, "addressPrefix");
  const all = [...(single === undefined ? [] : [single]), ...stringsAt(properties, "addressPrefixes")];
  const kind = version === "IPv6" ? "ipv6" : "ipv4";
  return [...new Set(all)].filter((prefix) => ipaddr.parseCIDR(prefix)[0].kind() === kind);
}

/** Assigns private addresses of subnets while one resource is written; its own earlier addresses are free. */
export class PrivateAddresses {
  readonly #state: SubscriptionState;
  readonly #owner: string;
  #used: Set<string> | undefined;

  constructor(state: SubscriptionState, owner: string) {
    this.#state = state;
    this.#owner = owner;
  }

  /** Takes a requested address; refuses one outside of the subnet, reserved by Azure, or in use. */
  takeStatic(subnetId: string, version: IpVersion, address: string): string {
    const fault = (code: string, message: string): ArmFault => new ArmFault(400, code, message);
    if (!ipaddr.isValid(address)) throw fault("InvalidIPAddressFormat", `Address '${address}' is not an IP address.`);
    const prefix = prefixesOf(this.#state, subnetId, this.#owner, version).find((range) => isIn(address, range));
    if (prefix === undefined)
      throw fault(
        "PrivateIPAddressNotInSubnet",
        `Private static IP address ${address} does not belong to the range of subnet prefix of ${subnetId}.`,
      );
    if (addressesIn(prefix, 0).take(reserved).toArray().includes(canonical(address)))
      throw fault(
        "PrivateIPAddressInReservedRange",
        `Private static IP address ${address} falls within reserved IP range of subnet range ${prefix}.`,
      );
    if (this.#inUse().has(canonical(address)))
      throw fault(
        "PrivateIPAddressIsAllocated",
        `IP configuration of ${this.#owner} is using the private IP address ${address} which is already allocated to another resource.`,
      );
    this.#inUse().add(canonical(address));
    return address;
  }

  /** The lowest free address of the subnet. */
  takeDynamic(subnetId: string, version: IpVersion): string {
    for (const prefix of prefixesOf(this.#state, subnetId, this.#owner, version))
      for (const address of addressesIn(prefix))
        if (!this.#inUse().has(address)) {
          this.#inUse().add(address);
          return address;
        }
    throw new ArmFault(
      400,
      "SubnetIsFull",
      `Subnet ${subnetId} does not have enough capacity for 1 ${version} address.`,
    );
  }

  #inUse(): Set<string> {
    this.#used ??= new Set(usedAddresses(this.#state, this.#owner));
    return this.#used;
  }
}

/** Private addresses of everything but one resource. */
function* usedAddresses(state: SubscriptionState, except: string): Generator<string> {
  const prefix = `${except}/`.toLowerCase();
  for (const { id, address } of ipConfigurationsOf(state).all)
    if (address !== undefined && !id.toLowerCase().startsWith(prefix)) yield canonical(address);
  yield* frontendAddresses(state, except);
}

/** Private addresses of load balancers and private link services, but for one of them. */
export function* frontendAddresses(state: SubscriptionState, except = ""): Generator<string> {
  for (const [type, property] of frontends)
    for (const resource of state.store.listType(state.subscription, type))
      for (const item of objectsAt(resource.properties, property)) {
        const address = stringAt(propertiesOf(item), "privateIPAddress");
        if (address !== undefined && !sameName(resource.id, except)) yield canonical(address);
      }
}

/** Sub-resources that have private addresses without being interfaces. */
const frontends = [
  ["microsoft.network/loadbalancers", "frontendIPConfigurations"],
  ["microsoft.network/privatelinkservices", "ipConfigurations"],
] as const;

export function usersOfSubnet(state: SubscriptionState, subnetId: string): readonly string[] {
  const users = ipConfigurationsOf(state).all.flatMap(({ id, subnet }) =>
    subnet !== undefined && sameName(subnet, subnetId) ? [id] : [],
  );
  for (const [type, property] of frontends)
    for (const resource of state.store.listType(state.subscription, type))
      for (const item of objectsAt(resource.properties, property))
        if (sameName(idAt(propertiesOf(item), "subnet") ?? "", subnetId))
          users.push(stringAt(item, "id") ?? `${resource.id}/${property}/${nameOf(item)}`);
  return users;
}
