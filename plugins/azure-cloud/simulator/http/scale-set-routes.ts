import { isObject } from "cloud-controller-host/sdk";

import type { ArmPath } from "../../arm/resource-id.ts";
import { objectAt, objectsAt } from "../../json.ts";
import { ArmFault, type ArmReply, methodNotAllowed, notFound } from "../faults.ts";
import { checkPools } from "../resources/interfaces.ts";
import { poolsOfInterfaces, touchLoadBalancers } from "../resources/ip-configurations.ts";
import {
  expandedVmView,
  interfaceView,
  publicAddressView,
  type ScaleSetView,
  vmView,
} from "../resources/scale-set-views.ts";
import { manyLoadBalancers } from "../resources/scale-sets.ts";
import type { Instance } from "../state/scale-set-instances.ts";
import type { Resource } from "../state/store.ts";
import type { SubscriptionState } from "../state/subscription-state.ts";
import { lookUpScaleSet, type SimulatedRequest } from "./request.ts";
import { answerWrite } from "./writes.ts";

/** Serialized once per state of an instance, so that a page of a large scale set is a join of strings. */
const texts = new WeakMap<Instance, Map<ScaleSetView, { readonly etag: string; readonly text: string }>>();

function textOf(view: ScaleSetView, scaleSet: Resource, instance: Instance): string {
  const known = texts.get(instance) ?? new Map<ScaleSetView, { readonly etag: string; readonly text: string }>();
  texts.set(instance, known);
  const held = known.get(view);
  if (held?.etag === scaleSet.etag) return held.text;
  const text = view(scaleSet, instance)
    .map((item) => JSON.stringify(item))
    .join(",");
  known.set(view, { etag: scaleSet.etag, text });
  return text;
}

function listPage(
  request: SimulatedRequest,
  state: SubscriptionState,
  scaleSet: Resource,
  view: ScaleSetView,
): ArmReply {
  const after = request.url.searchParams.get("$skiptoken") ?? undefined;
  const { instances, more } = state.instances(scaleSet.id).page(after, request.pageSize);
  const items = instances.map((instance) => textOf(view, scaleSet, instance)).filter((text) => text !== "");
  const last = instances.at(-1);
  const next = more && last !== undefined ? `,"nextLink":${JSON.stringify(request.nextLink(last.instanceId))}` : "";
  return { status: 200, body: `{"value":[${items.join(",")}]${next}}` };
}

const expanded = (request: SimulatedRequest): boolean =>
  (request.url.searchParams.get("$expand") ?? "").toLowerCase().includes("instanceview");

function instanceOf(state: SubscriptionState, scaleSet: Resource, instanceId: string): Instance {
  const instance = state.instances(scaleSet.id).get(instanceId);
  if (instance === undefined) throw notFound(`${scaleSet.id}/virtualMachines/${instanceId}`);
  return instance;
}

const vmIdOf = (scaleSet: Resource, instanceId: string): string => `${scaleSet.id}/virtualMachines/${instanceId}`;

/**
 * Writes the network profile of an instance; its pools must exist. The scale set gets a new etag, as in ARM. A write with
 * an operation is answered with 202 and no body.
 */
function writeVm(
  request: SimulatedRequest,
  state: SubscriptionState,
  scaleSet: Resource,
  instanceId: string,
): ArmReply {
  const instance = instanceOf(state, scaleSet, instanceId);
  request.checkIfMatch(instance.etag);
  const id = vmIdOf(scaleSet, instanceId);
  const properties = objectAt(isObject(request.body) ? request.body : {}, "properties");
  const profile = objectAt(properties, "networkProfileConfiguration");
  const { networkInterfaceConfigurations: before } = instance;
  const after = profile === undefined ? before : objectsAt(profile, "networkInterfaceConfigurations");
  checkPools(state, poolsOfInterfaces(after), id, manyLoadBalancers);
  const instances = state.instances(scaleSet.id);
  const shown = (): unknown => vmView(scaleSet, instances.get(instanceId) ?? instance)[0];
  return answerWrite(request, state, {
    id,
    status: 200,
    isDeferred: true,
    begin() {
      instances.change(instanceId, { provisioningState: "Updating" });
      return undefined;
    },
    finish() {
      instances.change(instanceId, { networkInterfaceConfigurations: after, provisioningState: "Succeeded" });
      state.store.touch(scaleSet.id);
      touchLoadBalancers(state, poolsOfInterfaces(before), poolsOfInterfaces(after));
      return shown();
    },
    fail: () => void instances.change(instanceId, { provisioningState: "Failed" }),
  });
}

function removeVm(
  request: SimulatedRequest,
  state: SubscriptionState,
  scaleSet: Resource,
  instanceId: string,
): ArmReply {
  const instances = state.instances(scaleSet.id);
  const instance = instances.get(instanceId);
  if (instance === undefined) return { status: 204 };
  return answerWrite(request, state, {
    id: vmIdOf(scaleSet, instanceId),
    status: 200,
    begin: () => undefined,
    finish() {
      instances.remove(instanceId);
      state.store.touch(scaleSet.id);
      touchLoadBalancers(state, poolsOfInterfaces(instance.networkInterfaceConfigurations), []);
    },
    fail: () => void instances.change(instanceId, { provisioningState: "Failed" }),
  });
}

function vmItem(request: SimulatedRequest, state: SubscriptionState, scaleSet: Resource, instanceId: string): ArmReply {
  switch (request.method) {
    case "GET": {
      const instance = instanceOf(state, scaleSet, instanceId);
      return { status: 200, body: (expanded(request) ? expandedVmView : vmView)(scaleSet, instance)[0] };
    }
    case "PUT":
      return writeVm(request, state, scaleSet, instanceId);
    case "DELETE":
      return removeVm(request, state, scaleSet, instanceId);
    default:
      throw methodNotAllowed(request.method, vmIdOf(scaleSet, instanceId));
  }
}

/** One item of a view of one instance, found by its last names (interface, ip configuration, public address). */
function itemOf(path: ArmPath, view: ScaleSetView) {
  return (state: SubscriptionState, scaleSet: Resource, instanceId: string): ArmReply => {
    const wanted = `${scaleSet.id}/${path.type
      .split("/")
      .slice(1)
      .map((type, index) => `${type}/${path.names[index + 1] ?? ""}`)
      .join("/")}`.toLowerCase();
    const items = view(scaleSet, instanceOf(state, scaleSet, instanceId));
    if (path.collection) return { status: 200, body: { value: items } };
    const item = items.find((candidate) => String(candidate["id"]).toLowerCase() === wanted);
    if (item === undefined) throw notFound(wanted);
    return { status: 200, body: item };
  };
}

/** Paths below a scale set. Undefined when the path is not one of them. */
export function scaleSetRoute(request: SimulatedRequest, state: SubscriptionState): ArmReply | undefined {
  const { path } = request;
  const [root, ...below] = path.type.toLowerCase().split("/");
  if (root !== "virtualmachinescalesets" || below.length === 0) return undefined;
  const scaleSet = lookUpScaleSet(state, path);
  const instanceId = path.names[1] ?? "";
  const isVm = below.length === 1 && below[0] === "virtualmachines" && !path.collection;
  if (request.method !== "GET" && !isVm) throw methodNotAllowed(request.method, request.url.pathname);
  switch (below.join("/")) {
    case "virtualmachines":
      if (!path.collection) return vmItem(request, state, scaleSet, instanceId);
      return listPage(request, state, scaleSet, expanded(request) ? expandedVmView : vmView);
    case "networkinterfaces":
      return listPage(request, state, scaleSet, interfaceView);
    case "publicipaddresses":
      return listPage(request, state, scaleSet, publicAddressView);
    case "virtualmachines/networkinterfaces":
      return itemOf(path, interfaceView)(state, scaleSet, instanceId);
    case "virtualmachines/networkinterfaces/ipconfigurations/publicipaddresses":
      return itemOf(path, publicAddressView)(state, scaleSet, instanceId);
    default:
      throw new ArmFault(404, "InvalidResourceType", `The resource type '${path.type}' could not be found.`);
  }
}
