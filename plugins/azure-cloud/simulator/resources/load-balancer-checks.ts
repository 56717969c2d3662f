import { sameName } from "../../arm/resource-id.ts";
import { type JsonObject, objectAt, objectsAt, stringAt } from "../../json.ts";
import { ArmFault } from "../faults.ts";
import type { Draft, Resource } from "../state/store.ts";
import { scaleSetUsing } from "./ip-configurations.ts";
import { checkRulesOfInterfaces } from "./limit-checks.ts";
import { checkNames, hasId, idAt, idsAt, invalidReference, nameOf, parentId, propertiesOf } from "./references.ts";
import type { WriteContext } from "./resource-rules.ts";

const badRequest = (code: string, message: string): ArmFault => new ArmFault(400, code, message);

/** References from a kind of rule to other sub-resources of the same load balancer. */
const references: readonly (readonly [string, string, string])[] = [
  ["loadBalancingRules", "frontendIPConfiguration", "frontendIPConfigurations"],
  ["loadBalancingRules", "backendAddressPool", "backendAddressPools"],
  ["loadBalancingRules", "probe", "probes"],
  ["inboundNatRules", "frontendIPConfiguration", "frontendIPConfigurations"],
  ["inboundNatPools", "frontendIPConfiguration", "frontendIPConfigurations"],
  ["outboundRules", "backendAddressPool", "backendAddressPools"],
];

const idsOf = (draft: Draft, property: string): readonly string[] =>
  objectsAt(draft.properties, property).map((item) => stringAt(item, "id") ?? "");

/** Refuses a load balancer that ARM would refuse: dangling references, conflicts between rules, addresses in use. */
export function checkLoadBalancer(draft: Draft, context: WriteContext): void {
  checkChildren(draft, context.id);
  checkReferences(draft);
  checkProbes(draft);
  checkRules(draft);
  checkFrontends(draft, context);
  checkRemovedPools(draft, context);
  checkLimits(draft, context);
  checkRulesOfInterfaces(draft, context);
}

const addressSources = ["ipAddress", "networkInterfaceIPConfiguration", "loadBalancerFrontendIPConfiguration"] as const;

/** An address of a pool is one by value or by reference. ARM shows those of interfaces by reference. */
export function checkAddresses(draft: Draft): void {
  for (const pool of objectsAt(draft.properties, "backendAddressPools"))
    for (const address of objectsAt(propertiesOf(pool), "loadBalancerBackendAddresses"))
      if (addressSources.every((source) => propertiesOf(address)[source] === undefined))
        throw badRequest(
          "InvalidRequestFormat",
          `Backend address ${nameOf(address)} of pool ${nameOf(pool)} has neither an IP address nor a reference.`,
        );
}

function checkChildren(draft: Draft, id: string): void {
  const properties = ["frontendIPConfigurations", "backendAddressPools", "loadBalancingRules", "probes"];
  for (const property of properties) checkNames(objectsAt(draft.properties, property), id);
  if (idsOf(draft, "frontendIPConfigurations").length > 0) return;
  if (properties.some((property) => objectsAt(draft.properties, property).length > 0))
    throw badRequest(
      "LoadBalancerWithoutFrontendIPCantHaveChildResources",
      `Load balancer ${id} does not have frontend IP configuration, but it has other child resources. This setup is not supported.`,
    );
}

function checkReferences(draft: Draft): void {
  for (const [property, field, target] of references) {
    const known = idsOf(draft, target);
    for (const rule of objectsAt(draft.properties, property)) {
      const id = idAt(propertiesOf(rule), field);
      if (id !== undefined && !hasId(known, id)) throw invalidReference(id, stringAt(rule, "id") ?? "");
    }
  }
  const frontends = idsOf(draft, "frontendIPConfigurations");
  for (const rule of objectsAt(draft.properties, "outboundRules"))
    for (const id of idsAt(propertiesOf(rule), "frontendIPConfigurations"))
      if (!hasId(frontends, id)) throw invalidReference(id, stringAt(rule, "id") ?? "");
}

/** Source: description of the property in the published definitions. */
function checkProbes(draft: Draft): void {
  for (const probe of objectsAt(draft.properties, "probes"))
    if (propertiesOf(probe)["port"] === 0)
      throw badRequest("InvalidRequestFormat", `Port 0 of probe ${nameOf(probe)} is not in the range from 1 to 65535.`);
}

const protocolOf = (rule: JsonObject): string => (stringAt(rule, "protocol") ?? "").toLowerCase();

/** Rules may share neither a frontend port nor, without a floating IP, a port of a pool. */
function checkRules(draft: Draft): void {
  const frontends = new Map<string, string>();
  const backends = new Map<string, string>();
  for (const rule of objectsAt(draft.properties, "loadBalancingRules")) {
    const properties = propertiesOf(rule);
    const id = stringAt(rule, "id") ?? "";
    checkPools(rule);
    const frontend =
      `${idAt(properties, "frontendIPConfiguration")} ${protocolOf(properties)} ${String(properties["frontendPort"])}`.toLowerCase();
    const taken = frontends.get(frontend);
    if (taken !== undefined)
      throw badRequest(
        "RulesUseSameFrontendPortAndProtocol",
        `Load balancing rules ${taken} and ${id} belong to the same frontend and use the same frontend port and protocol.`,
      );
    frontends.set(frontend, id);
    if (properties["enableFloatingIP"] === true) continue;
    const backend =
      `${idAt(properties, "backendAddressPool")} ${protocolOf(properties)} ${String(properties["backendPort"])}`.toLowerCase();
    const other = backends.get(backend);
    if (other !== undefined)
      throw badRequest(
        "RulesOfSameLoadBalancerTypeUseSameBackendPortProtocolAndIPConfig",
        `Load balancing rules ${other} and ${id} belong to the load balancer of the same type and use the same backend port and protocol with backend address pool ${idAt(properties, "backendAddressPool")}.`,
      );
    backends.set(backend, id);
  }
}

/** A rule names its pool twice, and ARM shows both. Source: Azure/azure-rest-api-specs#14430. */
function checkPools(rule: JsonObject): void {
  const properties = propertiesOf(rule);
  const one = idAt(properties, "backendAddressPool");
  const all = idsAt(properties, "backendAddressPools");
  if (one !== undefined && all.length > 0 && (all.length > 1 || !hasId(all, one)))
    throw badRequest(
      "LoadBalancingRuleBackendAdressPoolAndBackendAddressPoolsCannotBeSetAtTheSameTimeWithDifferentValue",
      `BackendAddressPool and BackendAddressPools[] in LoadBalancingRule ${nameOf(rule)} cannot be set at the same time with different value.`,
    );
}

const skuOf = (resource: JsonObject): string => (stringAt(objectAt(resource, "sku"), "name") ?? "Basic").toLowerCase();

function checkFrontends(draft: Draft, { id, state }: WriteContext): void {
  for (const frontend of objectsAt(draft.properties, "frontendIPConfigurations")) {
    const frontendId = stringAt(frontend, "id") ?? "";
    const addressId = idAt(propertiesOf(frontend), "publicIPAddress");
    if (addressId === undefined) continue;
    const address = state.store.get(addressId);
    if (address === undefined) throw invalidReference(addressId, id);
    checkPublicAddress(address, frontendId, id);
    if (skuOf(address) !== skuOf(draft))
      throw badRequest(
        "DifferentSkuLoadBalancersAndPublicIPAddressNotAllowed",
        `Different basic sku and standard sku load balancer and public Ip resources are not allowed: ${id} and ${address.id}.`,
      );
  }
}

function checkPublicAddress(address: Resource, frontendId: string, id: string): void {
  const status = stringAt(address.properties, "provisioningState");
  if (status !== "Succeeded")
    throw badRequest(
      "ReferencedResourceNotProvisioned",
      `Cannot proceed with operation because resource ${address.id} used by resource ${id} is not in Succeeded state. Resource is in ${status} state and the last operation that updated/is updating the resource is PutPublicIpAddressOperation.`,
    );
  const user = idAt(address.properties, "ipConfiguration");
  if (user !== undefined && !sameName(user, frontendId))
    throw badRequest(
      "PublicIPAddressInUse",
      `Resource ${frontendId} is referencing public IP address ${address.id} that is already allocated to resource ${user}.`,
    );
}

/** A pool that a scale set refers to cannot be taken out of its load balancer. */
function checkRemovedPools(draft: Draft, { id, previous, state }: WriteContext): void {
  const kept = idsOf(draft, "backendAddressPools");
  const removed = objectsAt(previous?.properties, "backendAddressPools")
    .map((pool) => stringAt(pool, "id") ?? "")
    .filter((pool) => !hasId(kept, pool));
  if (removed.length === 0) return;
  const use = scaleSetUsing(state, (pool) => sameName(parentId(pool), id) && hasId(removed, pool));
  if (use !== undefined)
    throw badRequest(
      "LoadBalancerInUseByVirtualMachineScaleSet",
      `Cannot delete child resources ${use.pool} of load balancer ${id} since they are in use by virtual machine scale set ${use.scaleSet.id}.`,
    );
}

function checkLimits(draft: Draft, { id, state }: WriteContext): void {
  const { frontends, rulesPerLoadBalancer } = state.limits;
  const counts: readonly (readonly [string, number, string])[] = [
    ["frontendIPConfigurations", frontends, "LoadBalancerFrontendIPConfigurationCountLimitReached"],
    ["loadBalancingRules inboundNatRules", rulesPerLoadBalancer, "LoadBalancerRuleCountLimitReached"],
  ];
  for (const [properties, limit, code] of counts) {
    const { length } = properties.split(" ").flatMap((property) => objectsAt(draft.properties, property));
    if (length > limit)
      throw badRequest(
        code,
        `Load balancer ${id} has ${length} ${properties.replace(" ", " and ")}; the limit is ${limit}.`,
      );
  }
}
