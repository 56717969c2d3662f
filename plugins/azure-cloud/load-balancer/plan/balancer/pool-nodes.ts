import type { Node } from "cloud-controller-host/sdk";

import { drainCause } from "../../model/drain.ts";
import { isClusterPool } from "../../model/names.ts";
import { oncePer } from "../../model/once-per.ts";
import type { Draft, UsedPool } from "../draft/draft.ts";
import { internalAddresses, nodeName } from "../draft/nodes.ts";

type NodeList = readonly Node[];

/**
 * The nodes of all Services that use one of the pools, each once, and those that another writer has added to a pool of
 * addresses: the last node sync of this process may be older. It would take them out, and the next one add them again.
 */
export function poolNodes({ observed, config }: Draft): (pools: readonly UsedPool[]) => NodeList {
  if (config.pools === "interfaces") return nodesOf;
  let members: ReadonlySet<string> | undefined;
  const isMember = (address: string): boolean => (members ??= addressesIn({ observed, config })).has(address);
  const withMembers = oncePer((nodes: NodeList): NodeList => {
    const known = byName(nodes);
    const hasJoined = (node: Node): boolean => {
      const before = known.get(nodeName(node));
      const former = before === undefined ? [] : internalAddresses(before);
      const isAdded = internalAddresses(node).some((one) => !former.includes(one) && isMember(one));
      // A plan for deletions alone has no list of nodes: members are of other Services, whose plans decide about them.
      return isAdded && (nodes.length === 0 || drainCause(node) === undefined);
    };
    const joined = newerThan(nodes)(observed.nodes).filter(hasJoined);
    return joined.length === 0 ? nodes : [...byName([...nodes, ...joined]).values()];
  });
  return (pools) => withMembers(nodesOf(pools));
}

/** The addresses in the pools of the cluster. */
function addressesIn({ observed, config }: Pick<Draft, "observed" | "config">): ReadonlySet<string> {
  const pools = observed.loadBalancers.flatMap(({ backendAddressPools = [] }) => backendAddressPools);
  const ofCluster = pools.filter(({ name = "" }) => isClusterPool(name, config.clusterName));
  const members = ofCluster.flatMap(({ loadBalancerBackendAddresses = [] }) => loadBalancerBackendAddresses);
  return new Set(members.flatMap(({ ipAddress }) => ipAddress ?? []));
}

/** Most lists are those of the plan before. */
const byName = oncePer(
  (nodes: NodeList): ReadonlyMap<string, Node> => new Map(nodes.map((node) => [nodeName(node), node] as const)),
);

/** The nodes of the second list of which the first has another version, or none. */
const newerThan = oncePer((nodes: NodeList) =>
  oncePer((all: NodeList): NodeList => all.filter((node) => byName(nodes).get(nodeName(node)) !== node)),
);

function nodesOf(pools: readonly UsedPool[]): NodeList {
  const lists = new Set(pools.flatMap(({ nodeLists }) => [...nodeLists]));
  const [only, ...more] = lists;
  return only !== undefined && more.length === 0 ? only : [...byName([...lists].flat()).values()];
}
