import type { ArmPath } from "../arm/resource-id.ts";
import { isObject, objectAt } from "../json.ts";
import { ArmFault, type ArmReply, notFound } from "./faults.ts";
import { lookUpScaleSet, type SimulatedRequest } from "./request.ts";
import type { Instance } from "./scale-set-instances.ts";
import { expandedVmView, interfaceView, publicAddressView, type ScaleSetView, vmView } from "./scale-set-views.ts";
import type { Resource } from "./store.ts";
import type { SubscriptionState } from "./subscription-state.ts";

/** Serialised once for each state of a instance, so that a page of a large scale set is a join of strings. */
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

function writeVm(
  request: SimulatedRequest,
  state: SubscriptionState,
  scaleSet: Resource,
  instanceId: string,
): ArmReply {
  const instance = instanceOf(state, scaleSet, instanceId);
  request.checkIfMatch(instance.etag);
  const body = isObject(request.body) ? request.body : {};
  const configured = objectAt(objectAt(body, "properties"), "networkProfileConfiguration")?.[
    "networkInterfaceConfigurations"
  ];
  const change = Array.isArray(configured) ? { networkInterfaceConfigurations: configured } : {};
  const changed = state.instances(scaleSet.id).change(instanceId, change) ?? instance;
  state.store.put(scaleSet.id, scaleSet);
  return { status: 200, body: vmView(scaleSet, changed)[0] };
}

function vmItem(request: SimulatedRequest, state: SubscriptionState, scaleSet: Resource, instanceId: string): ArmReply {
  if (request.method === "PUT") return writeVm(request, state, scaleSet, instanceId);
  const instance = instanceOf(state, scaleSet, instanceId);
  return { status: 200, body: (expanded(request) ? expandedVmView : vmView)(scaleSet, instance)[0] };
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
