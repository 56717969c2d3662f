import {
  defaultLoadBalancerName,
  isUninitialized,
  keyOf,
  kinds,
  type KubeClient,
  labelOf,
  labels,
  type Node,
  type Service,
  taints,
  taintsOf,
} from "cloud-controller-host/sdk";

import type { ServedCloud } from "../kit/cloud-server.ts";
import { addressesOf, cleanupFinalizer, finalizersOf } from "../kit/services.ts";

/** A route that is none of ours: outside the cluster's CIDR. */
export const foreignRoute = { name: "another-owners", targetNode: "a-router", destinationCIDR: "172.20.0.0/16" };

/** Everything that is wrong with cluster and cloud; empty once all work is done. */
export async function whatIsWrong(admin: KubeClient, { memory }: ServedCloud): Promise<readonly string[]> {
  const nodes: readonly Node[] = await admin.list(kinds.Node);
  const services: readonly Service[] = (await admin.list(kinds.Service)).filter(
    ({ metadata }) => metadata?.name !== "kubernetes",
  );
  return [
    ...differences("nodes", nodes.map(keyOf), [...memory.machines.keys()]),
    ...nodes.flatMap((node) => wrongWithNode(node, memory.machines.get(keyOf(node))?.shutdown === true)),
    ...doubles(
      "pod CIDR",
      nodes.map(({ spec }) => spec?.podCIDR ?? ""),
    ),
    ...differences(
      "routes",
      [...memory.routes.values()].map(({ targetNode, destinationCIDR }) => `${targetNode} ${destinationCIDR}`),
      [foreignRoute, ...nodes.map((node) => ({ targetNode: keyOf(node), destinationCIDR: node.spec?.podCIDR }))].map(
        ({ targetNode, destinationCIDR }) => `${targetNode} ${destinationCIDR}`,
      ),
    ),
    ...differences("load balancers", [...memory.balancers.keys()], services.filter(isBalanced).map(keyOf)),
    ...services.flatMap((service) => wrongWithService(service, nodes, memory.balancers.get(keyOf(service)))),
    ...doubles(
      "address",
      services.flatMap((service) => addressesOf(service)),
    ),
  ];
}

const isBalanced = ({ spec }: Service): boolean => spec?.type === "LoadBalancer";

function wrongWithNode(node: Node, isOff: boolean): readonly string[] {
  const name = keyOf(node);
  const isTainted = taintsOf(node).some(({ key }) => key === taints.shutdown);
  const isRouted = node.status?.conditions?.some(
    ({ type, status, reason }) => type === "NetworkUnavailable" && status === "False" && reason === "RouteCreated",
  );
  const rules: readonly (readonly [boolean, string])[] = [
    [isUninitialized(node), "is not initialized"],
    [node.spec?.providerID !== `test-cloud://${name}`, `has the provider ID ${node.spec?.providerID}`],
    [!node.status?.addresses?.some(({ type }) => type === "InternalIP"), "has no address"],
    [node.spec?.podCIDR === undefined, "has no pod CIDR"],
    [isRouted !== true, "is not marked as reachable"],
    [isTainted !== isOff, isOff ? "is off and not tainted" : "is tainted and not off"],
  ];
  return rules.flatMap(([isWrong, what]) => (isWrong ? [`node ${name} ${what}`] : []));
}

type Balancer = ReturnType<ServedCloud["memory"]["balancers"]["get"]>;

function wrongWithService(service: Service, nodes: readonly Node[], balancer: Balancer): readonly string[] {
  const name = keyOf(service);
  const isHeld = finalizersOf(service).includes(cleanupFinalizer);
  const behind = nodes.filter((node) => labelOf(node, labels.excludeFromLoadBalancers) !== "true").map(keyOf);
  const rules: readonly (readonly [boolean, string])[] = isBalanced(service)
    ? [
        [!isHeld, "has no finalizer"],
        [
          addressesOf(service).join() !== (balancer?.status.ingress?.[0]?.ip ?? "none"),
          "does not have the address of its load balancer",
        ],
        [
          balancer?.name !== defaultLoadBalancerName(service),
          `has the load balancer ${balancer?.name} of another Service`,
        ],
        [!sameNames(balancer?.nodes ?? [], behind), `has the nodes ${balancer?.nodes.join()} and not ${behind.join()}`],
      ]
    : [
        [isHeld, "still has the finalizer"],
        [addressesOf(service).length > 0, "still has an address"],
      ];
  const isGoing = service.metadata?.deletionTimestamp !== undefined;
  return [...rules, [isGoing, "is still there"] as const].flatMap(([isWrong, what]) =>
    isWrong ? [`Service ${name} ${what}`] : [],
  );
}

const sameNames = (one: readonly string[], other: readonly string[]): boolean =>
  one.toSorted().join() === other.toSorted().join();

function differences(what: string, found: readonly string[], wanted: readonly string[]): readonly string[] {
  const [left, missing] = [found.filter((one) => !wanted.includes(one)), wanted.filter((one) => !found.includes(one))];
  return [
    ...left.map((one) => `${what}: ${one} is left over`),
    ...missing.map((one) => `${what}: ${one} is missing`),
    ...doubles(what, found),
  ];
}

const doubles = (what: string, found: readonly string[]): readonly string[] =>
  found.filter((one, index) => found.indexOf(one) !== index).map((one) => `${what}: ${one} is there twice`);
