import { keyOf, kinds, type Node, type Service } from "cloud-controller-host/sdk";

import { addressesOf } from "../../../kit/services.ts";
import { isRefused } from "../actions/services.ts";
import { familiesOf } from "../azure-view.ts";
import type { World } from "../world.ts";
import { differences, lacking, wantedMembers } from "./services.ts";
import { isBalanced } from "./wishes.ts";

/** Everything that is not as users want it. */
export function problemsOf(world: World): readonly string[] {
  const view = world.view();
  const nodes: readonly Node[] = world.api.list(kinds.Node);
  const services = world.services();
  const balanced = services.filter(isBalanced);
  const privateIPs = new Map(world.instances().map((one) => [one.computerName.toLowerCase(), one.privateIP]));
  return [
    ...nodes.flatMap(problemsOfNode),
    ...problemsOfCIDRs(world, nodes),
    ...differences(
      "route",
      view.routes,
      nodes.filter(hasCIDR).map((node) => `${keyOf(node)} ${node.spec?.podCIDR} ${privateIPs.get(keyOf(node))}`),
    ),
    ...differences(
      "node",
      nodes.map(keyOf),
      world
        .instances()
        .map(({ computerName }) => computerName.toLowerCase())
        .filter((name) => world.isInUse(name)),
    ),
    ...balanced
      .filter((service) => !isRefused(service))
      .flatMap((service) => familiesOf(service).map((family) => [service, family] as const))
      .flatMap(([service, family]) => {
        const found = view.serviceOf(service, family);
        const members = differences("member", [...found.members], wantedMembers(world, view, found, nodes.map(keyOf)));
        const failed = found.failed.map((name) => `uses ${name}, which is Failed`);
        return [...lacking(world, service, family, found), ...members, ...failed].map(
          (problem) => `${keyOf(service)} ${family} ${problem}`,
        );
      }),
    ...balanced
      .filter(isRefused)
      .flatMap((service) => (hasEvent(world, service, "Warning") ? [] : [`${keyOf(service)} fails without an event`])),
    ...services
      .filter((service) => !isBalanced(service))
      .flatMap((service) => {
        if (service.metadata?.deletionTimestamp !== undefined) return [`${keyOf(service)} is still being deleted`];
        return addressesOf(service).length > 0 ? [`${keyOf(service)} still shows an address`] : [];
      }),
    ...view.leftovers([...balanced, ...world.forgiven]).map((part) => `${part} is left over`),
  ];
}

function hasEvent(world: World, { metadata }: Service | Node, wanted: string): boolean {
  const events = world.api.list(kinds.Event);
  return events.some(
    ({ type, reason, involvedObject }) =>
      (type === wanted || reason === wanted) && involvedObject.uid === metadata?.uid,
  );
}

const hasCIDR = ({ spec }: Node): boolean => spec?.podCIDR !== undefined;

/** As many nodes have a CIDR as there are CIDRs, and each of the others has an event. */
function problemsOfCIDRs(world: World, nodes: readonly Node[]): readonly string[] {
  const without = nodes.filter((node) => !hasCIDR(node));
  const free = world.cluster.podCIDRs - (nodes.length - without.length);
  if (free > 0) return without.map((node) => `node ${keyOf(node)} has no Pod CIDR, and ${free} are free`);
  const silent = without.filter((node) => !hasEvent(world, node, "CIDRNotAvailable"));
  return silent.map((node) => `node ${keyOf(node)} has no Pod CIDR, without an event`);
}

function problemsOfNode(node: Node): readonly string[] {
  const rules: readonly (readonly [boolean, string])[] = [
    [node.spec?.providerID === undefined, "has no provider ID"],
    [!node.status?.addresses?.some(({ type }) => type === "InternalIP"), "has no address"],
    [node.spec?.taints?.some(({ key }) => key.startsWith("node.cloudprovider.kubernetes.io/")) === true, "is tainted"],
  ];
  return rules.flatMap(([isWrong, what]) => (isWrong ? [`node ${keyOf(node)} ${what}`] : []));
}
