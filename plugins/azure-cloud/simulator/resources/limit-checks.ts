import { isObject } from "cloud-controller-host/sdk";

import { lastSegment, sameName } from "../../arm/resource-id.ts";
import { type JsonObject, objectAt, objectsAt, stringAt, stringsAt } from "../../json.ts";
import { ArmFault } from "../faults.ts";
import type { Draft } from "../state/store.ts";
import type { SubscriptionState } from "../state/subscription-state.ts";
import { ipConfigurationsOf } from "./ip-configurations.ts";
import { idAt, idsAt, parentId, propertiesOf } from "./references.ts";
import type { WriteContext } from "./resource-rules.ts";

const refusal = (code: string, message: string): ArmFault => new ArmFault(400, code, message);

/** ARM checks the tags of every resource before its provider sees it. */
export function checkTags(body: JsonObject, { limits }: SubscriptionState): void {
  const tags = Object.entries(objectAt(body, "tags") ?? {});
  if (tags.length > limits.tags)
    throw refusal(
      "TooManyTags",
      `Too many tags on the resource/resource group. Requested tag count - '${tags.length}'. Maximum number of tags allowed - '${limits.tags}'.`,
    );
  for (const [name, value] of tags) {
    if (name.length > limits.tagNameLength)
      throw refusal(
        "TagNameTooLarge",
        `Tag name too large. Maximum allowed length for tag name - '${limits.tagNameLength}' characters.`,
      );
    if (String(value).length > limits.tagValueLength)
      throw refusal(
        "TagValueTooLarge",
        `Tag value too large. Following tag value '${String(value)}' exceeded the maximum length. Maximum allowed length for tag value - '${limits.tagValueLength}' characters.`,
      );
  }
}

/** Names of a network resource and of its parts. */
export function checkNameLengths(draft: Draft, { id, state }: WriteContext): void {
  const parts = Object.values(draft.properties).flatMap((value) =>
    Array.isArray(value) ? value.filter(isObject) : [],
  );
  const names = [lastSegment(id), ...parts.map((part) => stringAt(part, "name") ?? "")];
  const long = names.find(({ length }) => length > state.limits.nameLength);
  if (long !== undefined)
    throw refusal(
      "InvalidResourceName",
      `Resource name ${long} is invalid. The name can be up to ${state.limits.nameLength} characters long.`,
    );
}

/** Rules by lower-case pool id of the load balancer as it would be stored, and of all others. */
function rulesByPool(draft: Draft, { id, state }: WriteContext): ReadonlyMap<string, number> {
  const others = state.store
    .listType(state.subscription, "microsoft.network/loadbalancers")
    .filter((one) => !sameName(one.id, id));
  const counts = new Map<string, number>();
  for (const { properties } of [draft, ...others])
    for (const key of ["loadBalancingRules", "inboundNatRules"])
      for (const rule of objectsAt(properties, key)) {
        const pool = (idAt(propertiesOf(rule), "backendAddressPool") ?? "").toLowerCase();
        counts.set(pool, (counts.get(pool) ?? 0) + 1);
      }
  return counts;
}

/** An interface is in pools; the rules of all of them apply to it. Source of the words: MicrosoftDocs/azure-docs#47423. */
export function checkRulesOfInterfaces(draft: Draft, context: WriteContext): void {
  const { state, id } = context;
  const limit = state.limits.rulesPerInterface;
  const counts = rulesByPool(draft, context);
  const known = new Set<string>();
  for (const { id: configuration, pools } of ipConfigurationsOf(state).all) {
    const key = pools.join().toLowerCase();
    if (known.has(key) || !pools.some((pool) => sameName(parentId(pool), id))) continue;
    known.add(key);
    const rules = pools.reduce((sum, pool) => sum + (counts.get(pool.toLowerCase()) ?? 0), 0);
    if (rules > limit)
      throw refusal(
        "LoadBalancerRuleCountLimitReachedForNic",
        `IpConfiguration ${configuration} cannot have more than ${limit} NAT or load balancing rules combined.`,
      );
  }
}

/** A load balancer has few private link services, whatever its frontends, and each of them has few addresses. */
export function checkPrivateLinks(draft: Draft, { id, state }: WriteContext): void {
  const { privateLinkServices: limit, privateLinkAddresses } = state.limits;
  if (objectsAt(draft.properties, "ipConfigurations").length > privateLinkAddresses)
    throw refusal(
      "PrivateLinkServiceIpConfigurationCountLimitReached",
      `Private link service ${id} cannot have more than ${privateLinkAddresses} IP configurations.`,
    );
  const balancers = (one: { readonly properties: JsonObject }): readonly string[] =>
    idsAt(one.properties, "loadBalancerFrontendIpConfigurations").map((frontend) => parentId(frontend).toLowerCase());
  const [balancer] = balancers(draft);
  const all = state.store.listType(state.subscription, "microsoft.network/privatelinkservices");
  const others = all.filter(
    (one) => !sameName(one.id, id) && balancer !== undefined && balancers(one).includes(balancer),
  );
  if (others.length >= limit)
    throw refusal(
      "PrivateLinkServiceCountLimitReached",
      `Cannot create more than ${limit} private link services for load balancer ${balancer}.`,
    );
}

export function checkSecurityPrefixes(draft: Draft, { id, state }: WriteContext): void {
  const limit = state.limits.securityPrefixes;
  const rules = objectsAt(draft.properties, "securityRules").map(propertiesOf);
  for (const side of ["source", "destination"]) {
    const prefixes = rules.flatMap((rule) => [
      ...stringsAt(rule, `${side}AddressPrefixes`),
      ...(stringAt(rule, `${side}AddressPrefix`) === undefined ? [] : [side]),
    ]);
    if (prefixes.length > limit)
      throw refusal(
        "SecurityRuleAddressPrefixesCountLimitReached",
        `Network security group ${id} has ${prefixes.length} ${side} address prefixes; the limit is ${limit}.`,
      );
  }
}
