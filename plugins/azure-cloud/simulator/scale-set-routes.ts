import type { ArmPath } from "../arm/resource-id.ts";
import { isObject, objectAt } from "../json.ts";
import { ArmFault, type ArmReply, notFound } from "./fault.ts";
import { lookUpScaleSet, type SimulatedRequest } from "./request.ts";
import type { Machine } from "./scale-set-machines.ts";
import {
  interfaceView,
  type MachineView,
  machineView,
  machineViewExpanded,
  publicAddressView,
} from "./scale-set-views.ts";
import type { Resource } from "./store.ts";
import type { World } from "./world.ts";

/** Serialised once for each state of a machine, so that a page of a large scale set is a join of strings. */
const texts = new WeakMap<Machine, Map<MachineView, { readonly etag: string; readonly text: string }>>();

function textOf(view: MachineView, scaleSet: Resource, machine: Machine): string {
  const known = texts.get(machine) ?? new Map<MachineView, { readonly etag: string; readonly text: string }>();
  texts.set(machine, known);
  const held = known.get(view);
  if (held?.etag === scaleSet.etag) return held.text;
  const text = view(scaleSet, machine)
    .map((item) => JSON.stringify(item))
    .join(",");
  known.set(view, { etag: scaleSet.etag, text });
  return text;
}

function listPage(request: SimulatedRequest, world: World, scaleSet: Resource, view: MachineView): ArmReply {
  const after = request.url.searchParams.get("$skiptoken") ?? undefined;
  const { machines, more } = world.machines(scaleSet.id).page(after, request.pageSize);
  const items = machines.map((machine) => textOf(view, scaleSet, machine)).filter((text) => text !== "");
  const last = machines.at(-1);
  const next = more && last !== undefined ? `,"nextLink":${JSON.stringify(request.nextLink(last.instanceId))}` : "";
  return { status: 200, body: `{"value":[${items.join(",")}]${next}}` };
}

const expanded = (request: SimulatedRequest): boolean =>
  (request.url.searchParams.get("$expand") ?? "").toLowerCase().includes("instanceview");

function machineOf(world: World, scaleSet: Resource, instanceId: string): Machine {
  const machine = world.machines(scaleSet.id).get(instanceId);
  if (machine === undefined) throw notFound(`${scaleSet.id}/virtualMachines/${instanceId}`);
  return machine;
}

function writeMachine(request: SimulatedRequest, world: World, scaleSet: Resource, instanceId: string): ArmReply {
  const machine = machineOf(world, scaleSet, instanceId);
  request.checkIfMatch(machine.etag);
  const body = isObject(request.body) ? request.body : {};
  const configured = objectAt(objectAt(body, "properties"), "networkProfileConfiguration")?.[
    "networkInterfaceConfigurations"
  ];
  const change = Array.isArray(configured) ? { networkInterfaceConfigurations: configured } : {};
  const changed = world.machines(scaleSet.id).change(instanceId, change) ?? machine;
  world.store.put(scaleSet.id, scaleSet);
  return { status: 200, body: machineView(scaleSet, changed)[0] };
}

function machineItem(request: SimulatedRequest, world: World, scaleSet: Resource, instanceId: string): ArmReply {
  if (request.method === "PUT") return writeMachine(request, world, scaleSet, instanceId);
  const machine = machineOf(world, scaleSet, instanceId);
  return { status: 200, body: (expanded(request) ? machineViewExpanded : machineView)(scaleSet, machine)[0] };
}

/** One item of a view of one instance, found by its last names (interface, ip configuration, public address). */
function itemOf(path: ArmPath, view: MachineView) {
  return (world: World, scaleSet: Resource, instanceId: string): ArmReply => {
    const wanted = `${scaleSet.id}/${path.type
      .split("/")
      .slice(1)
      .map((type, index) => `${type}/${path.names[index + 1] ?? ""}`)
      .join("/")}`.toLowerCase();
    const items = view(scaleSet, machineOf(world, scaleSet, instanceId));
    if (path.collection) return { status: 200, body: { value: items } };
    const item = items.find((candidate) => String(candidate["id"]).toLowerCase() === wanted);
    if (item === undefined) throw notFound(wanted);
    return { status: 200, body: item };
  };
}

/** Paths below a scale set. Undefined when the path is not one of them. */
export function scaleSetRoute(request: SimulatedRequest, world: World): ArmReply | undefined {
  const { path } = request;
  const [root, ...below] = path.type.toLowerCase().split("/");
  if (root !== "virtualmachinescalesets" || below.length === 0) return undefined;
  const scaleSet = lookUpScaleSet(world, path);
  const instanceId = path.names[1] ?? "";
  switch (below.join("/")) {
    case "virtualmachines":
      if (!path.collection) return machineItem(request, world, scaleSet, instanceId);
      return listPage(request, world, scaleSet, expanded(request) ? machineViewExpanded : machineView);
    case "networkinterfaces":
      return listPage(request, world, scaleSet, interfaceView);
    case "publicipaddresses":
      return listPage(request, world, scaleSet, publicAddressView);
    case "virtualmachines/networkinterfaces":
      return itemOf(path, interfaceView)(world, scaleSet, instanceId);
    case "virtualmachines/networkinterfaces/ipconfigurations/publicipaddresses":
      return itemOf(path, publicAddressView)(world, scaleSet, instanceId);
    default:
      throw new ArmFault(404, "InvalidResourceType", `The resource type '${path.type}' could not be found.`);
  }
}
