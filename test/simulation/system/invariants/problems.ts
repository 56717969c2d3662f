import { keyOf, kinds, type Node, type Service } from "cloud-controller-host/sdk";

import { addressesOf } from "../../../kit/services.ts";
import { isExcluded } from "../actions/nodes.ts";
import { isTheirs, theirAddress } from "../actions/theirs.ts";
import { familiesOf } from "../azure-view.ts";
import type { World } from "../world.ts";
import { leftOpenings, leftoversIn, leftPools } from "./leftovers.ts";
import { isRefused } from "./refusals.ts";
import { differences, lacking, localNodes, wantedMembers } from "./services.ts";
import { isBalanced } from "./wishes.ts";

/** What a failure is about: the controller that reports it follows from that. */
export type ProblemKind = "Service" | "uninitialized" | "addresses" | "shutdown" | "existence" | "CIDR" | "route";

/** Something that is not as users want it. */
export interface Problem {
  readonly text: string;
  readonly kind?: ProblemKind;
  /** The name of its object; it may be gone. Undefined for what is left over. */
  readonly object?: string;
  readonly uid?: string;
  /** Another one is another problem of the object. */
  readonly cause?: string;
  /** No request has to fail for it. */
  readonly isRefusal?: true;
}

/** Everything that is not as users want it. */
export function problemsOf(world: World): readonly Problem[] {
  const view = world.view();
  const all = world.nodes();
  // One whose VM is gone has no other problem.
  const nodes = all.filter((node) => world.machineOf(keyOf(node)) !== undefined);
  // Routes and pools follow when its address is that of its VM.
  const former = nodes.filter((node) => hasFormerAddress(world, node));
  const current = nodes.filter((node) => !former.includes(node));
  const services = world.services();
  const balanced = services.filter(isBalanced);
  return [
    ...nodes.flatMap(problemsOfNode),
    ...problemsOfCIDRs(world, all, nodes),
    ...former.map((node) => ({
      ...subjectOf("addresses", node),
      text: `node ${keyOf(node)} has the address of a former VM`,
      // Its address may be right between two replacements.
      cause: world.machineOf(keyOf(node))?.privateIP ?? "",
    })),
    ...problemsOfRoutes(world, all, current),
    ...problemsOfExistence(world, all),
    ...services.flatMap((service) =>
      problemsOfService(world, nodes, new Set(former.map(keyOf)), service).map((text) => ({
        ...subjectOf("Service", service),
        text: `${keyOf(service)} ${text}`,
        ...(isBalanced(service) && isRefused(world, service) && { isRefusal: true as const }),
      })),
    ),
    ...staleConditions(balanced.filter((service) => !isRefused(world, service))),
    // A deployment that has marked a Service may have opened its ports on an address before it has them.
    ...(world.cluster.sharesAddresses
      ? leftOpenings(view, balanced, [...world.forgiven, ...services.filter(isTheirs)])
      : []
    ).map((text) => ({ text })),
    ...leftoversIn(view, [...balanced, ...world.forgiven]).map((part) => ({ text: `${part} is left over` })),
    ...leftPools(view).map((pool) => ({ text: `${pool} is left over` })),
  ];
}

/**
 * The load balancer may be well before the condition is: a process may lose its lease, or be paused, between the two. The
 * next attempt writes it. The failure is shown, so that the problem has no object.
 */
export const staleConditions = (services: readonly Service[]): readonly Problem[] =>
  services
    .filter(({ status }) =>
      status?.conditions?.some(({ type, status: value }) => type === "LoadBalancerReady" && value === "False"),
    )
    .map((service) => ({ text: `${keyOf(service)} still shows a failure` }));

const subjectOf = (kind: ProblemKind, object: Service | Node) => ({
  kind,
  object: keyOf(object),
  uid: object.metadata?.uid ?? "",
});

/** Another VM has its id: the node is the same. */
function hasFormerAddress(world: World, node: Node): boolean {
  const addresses = node.status?.addresses?.filter(({ type }) => type === "InternalIP") ?? [];
  const { privateIP } = world.machineOf(keyOf(node)) ?? {};
  return (
    addresses.length > 0 &&
    world.isOfMachine(keyOf(node), node) &&
    addresses.every(({ address }) => address !== privateIP)
  );
}

/** `former`: nodes that may be members or not. */
function problemsOfService(
  world: World,
  nodes: readonly Node[],
  former: ReadonlySet<string>,
  service: Service,
): readonly string[] {
  if (!isBalanced(service)) {
    if (service.metadata?.deletionTimestamp !== undefined) return ["is still being deleted"];
    if (isTheirs(service)) return problemsOfTheirs(service);
    return addressesOf(service).length > 0 ? ["still shows an address"] : [];
  }
  if (isRefused(world, service)) {
    const silent = hasEvent(world, service, "Warning") ? [] : ["fails without an event"];
    return [...silent, ...problemsOfRefused(world, nodes, former, service)];
  }
  const view = world.view();
  return familiesOf(service).flatMap((family) => {
    const found = view.serviceOf(service, family);
    const serving = nodes.filter((node) => !isExcluded(node)).map(keyOf);
    // What it had before stays where no node may serve.
    const pods = localNodes(world, service);
    const placed =
      pods === undefined ? wantedMembers(world, view, found, serving) : serving.filter((one) => pods.has(one));
    const wanted = serving.length === 0 ? found.members : new Set(placed);
    const members = differences("member", [...found.members.difference(former)], [...wanted.difference(former)]);
    const failed = found.failed.map((name) => `uses ${name}, which is Failed`);
    return [...lacking(world, service, family, found), ...members, ...failed].map((problem) => `${family} ${problem}`);
  });
}

/** A Service that is refused keeps what it has, but a pool of its own follows its Pods. */
function problemsOfRefused(
  world: World,
  nodes: readonly Node[],
  former: ReadonlySet<string>,
  service: Service,
): readonly string[] {
  const pods = localNodes(world, service);
  if (pods === undefined) return [];
  const serving = nodes.filter((node) => !isExcluded(node) && pods.has(keyOf(node))).map(keyOf);
  return familiesOf(service).flatMap((family) => {
    const { members, isLocal } = world.view().serviceOf(service, family);
    return isLocal
      ? differences(
          "member",
          [...members.difference(former)],
          serving.filter((one) => !former.has(one)),
        )
      : [];
  });
}

/**
 * A Service of another controller shows that one's address. Our finalizer may stay at it, where nothing else of it is left
 * by which a fresh process knows that the finalizer is ours: it goes when the Service is deleted.
 */
function problemsOfTheirs(service: Service): readonly string[] {
  const address = addressesOf(service).join();
  const wanted = service.spec?.type === "LoadBalancer" ? theirAddress : "";
  return address === wanted ? [] : [`of another controller shows ${address || "no address"}`];
}

function problemsOfRoutes(world: World, all: readonly Node[], nodes: readonly Node[]): readonly Problem[] {
  const doomed = new Set(all.map(keyOf)).difference(new Set(nodes.map(keyOf)));
  const found = world.view().routes.filter((route) => !doomed.has(route.split(" ")[0] ?? ""));
  const privateIPs = new Map(world.machines.all.map(({ name, privateIP }) => [name, privateIP]));
  const nodesOfRoutes = new Map(nodes.map((node) => [keyOf(node), node]));
  const wanted = nodes
    .filter(hasCIDR)
    .map((node) => `${keyOf(node)} ${node.spec?.podCIDR} ${privateIPs.get(keyOf(node))}`);
  return differences("route", found, wanted).map((text) => {
    const object = text.split(" ")[1] ?? "";
    return { text, kind: "route", object, uid: nodesOfRoutes.get(object)?.metadata?.uid ?? "" };
  });
}

/** Nodes without a VM, and VMs without a node, which only their kubelets can change. */
function problemsOfExistence(world: World, nodes: readonly Node[]): readonly Problem[] {
  const vms = new Set(world.machines.all.map(({ name }) => name));
  const names = new Set(nodes.map(keyOf));
  return [
    ...nodes
      .filter((node) => !vms.has(keyOf(node)) || !world.isInUse(keyOf(node)))
      .map((node) => ({ ...subjectOf("existence", node), text: `node ${keyOf(node)} is left over` })),
    ...[...vms]
      .filter((name) => world.isInUse(name) && !names.has(name))
      .map((name) => ({ text: `node ${name} is missing` })),
  ];
}

function hasEvent(world: World, { metadata }: Service | Node, wanted: string): boolean {
  const events = world.api.list(kinds.Event);
  return events.some(
    ({ type, reason, involvedObject }) =>
      (type === wanted || reason === wanted) && involvedObject.uid === metadata?.uid,
  );
}

export const hasCIDR = ({ spec }: Node): boolean => spec?.podCIDR !== undefined;

/** As many nodes have a CIDR as there are CIDRs, and each of the others has an event. */
function problemsOfCIDRs(world: World, all: readonly Node[], nodes: readonly Node[]): readonly Problem[] {
  const without = nodes.filter((node) => !hasCIDR(node));
  const free = world.cluster.podCIDRs - all.filter(hasCIDR).length;
  const problem = (node: Node, what: string): Problem => ({
    ...subjectOf("CIDR", node),
    text: `node ${keyOf(node)} has no Pod CIDR, ${what}`,
  });
  if (free > 0) return without.map((node) => problem(node, `and ${free} are free`));
  const silent = without.filter((node) => !hasEvent(world, node, "CIDRNotAvailable"));
  return silent.map((node) => ({ ...problem(node, "without an event"), isRefusal: true }));
}

const cloudTaint = "node.cloudprovider.kubernetes.io/";

function problemsOfNode(node: Node): readonly Problem[] {
  const isTainted = (name = ""): boolean =>
    node.spec?.taints?.some(({ key }) => key.startsWith(cloudTaint + name)) === true;
  const isNew = isTainted("uninitialized");
  const rules: readonly (readonly [boolean, ProblemKind, string])[] = [
    [node.spec?.providerID === undefined, "uninitialized", "has no provider ID"],
    [
      !node.status?.addresses?.some(({ type }) => type === "InternalIP"),
      isNew ? "uninitialized" : "addresses",
      "has no address",
    ],
    [isTainted(), isNew ? "uninitialized" : "shutdown", "is tainted"],
  ];
  return rules.flatMap(([isWrong, kind, what]) =>
    isWrong ? [{ ...subjectOf(kind, node), text: `node ${keyOf(node)} ${what}` }] : [],
  );
}
