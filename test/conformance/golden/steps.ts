import type { RecordedNode, RecordedStep } from "./cases.ts";
import { type GoldenCluster, thirdNode } from "./golden-cluster.ts";

/** What happens in a step. `before` is the recorded state at its beginning; undefined in the first. */
type Act = (cluster: GoldenCluster, recorded: RecordedStep, before: RecordedStep | undefined) => void;

const excluded = "node.kubernetes.io/exclude-from-external-load-balancers";

const names = (step: RecordedStep | undefined): readonly string[] =>
  step?.services?.map(({ metadata }) => metadata?.name ?? "") ?? [];

/** Nodes of a state that were not there before, and those that are there no longer. */
function followNodes(cluster: GoldenCluster, recorded: RecordedStep, before: RecordedStep | undefined): void {
  const known = (step: RecordedStep | undefined): ReadonlyMap<string, RecordedNode> =>
    new Map((step?.nodes ?? []).map((node) => [node.name, node]));
  const [now, then] = [known(recorded), known(before)];
  for (const node of now.values()) if (!then.has(node.name)) cluster.createNode({ ...node, conditions: [] });
  for (const name of then.keys()) if (!now.has(name)) cluster.deleteNode(name);
}

const serviceSteps: Readonly<Record<string, Act>> = {
  created: (cluster, { services = [] }) => {
    for (const service of services) cluster.createService(service);
  },
  afterUpdate: (cluster, { services = [] }) => {
    for (const service of services) cluster.updateService(service);
  },
  afterDeletingFirst: (cluster, _recorded, before) => {
    cluster.deleteService(names(before)[0] ?? "");
  },
  afterExcludingNode: (cluster) => cluster.labelNode(thirdNode(cluster).name, excluded, "true"),
  afterIncludingNode: (cluster) => cluster.labelNode(thirdNode(cluster).name, excluded, undefined),
  afterDeletingNode: (cluster) => cluster.deleteNode(thirdNode(cluster).name),
  afterNodeReturns: (cluster) => cluster.createNode(thirdNode(cluster)),
  afterDeletion: (cluster, _recorded, before) => {
    for (const name of names(before)) cluster.deleteService(name);
  },
};

const routeSteps: Readonly<Record<string, Act>> = {
  created: followNodes,
  afterNodeJoins: followNodes,
  afterNodeDeleted: followNodes,
};

const steps: Readonly<Record<string, Readonly<Record<string, Act>>>> = { services: serviceSteps, routes: routeSteps };

/** What a recorded step does; an unknown one is an error. */
export function actOf(kind: string, step: string): Act {
  const act = steps[kind]?.[step];
  if (act === undefined) throw new Error(`unknown step "${step}" of a case of kind "${kind}"`);
  return act;
}
