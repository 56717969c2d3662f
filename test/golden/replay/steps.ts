import type { Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { addressesOf } from "../../kit/services.ts";
import { excludedLabel, type RecordedNode, type RecordedStep } from "./cases.ts";
import { type GoldenCluster, thirdNode } from "./golden-cluster.ts";

/** What happens in a step. `before` is the recorded state at its beginning; undefined in the first. */
type Act = (cluster: GoldenCluster, recorded: RecordedStep, before: RecordedStep | undefined) => void | Promise<void>;

/** A Service is handled when it is as recorded: it has its addresses, or a warning where it never got any. */
function isHandled(cluster: GoldenCluster, recorded: Service): boolean {
  const name = recorded.metadata?.name ?? "";
  const wanted = addressesOf(recorded).length;
  if (wanted === 0)
    return cluster.cluster.events().some((event) => event.type === "Warning" && event.involvedObject?.name === name);
  const found = cluster.services().find(({ metadata }) => metadata?.name === name);
  return addressesOf(found).length === wanted;
}

/** One after the other, as the Go provider handled them: what a Service gets may depend on those before it. */
async function createServices(cluster: GoldenCluster, { services = [] }: RecordedStep): Promise<void> {
  for (const service of services) {
    cluster.createService(service);
    // One that is not handled in time shows in the comparison of the step.
    await eventually("the Service is handled", () => isHandled(cluster, service), 8_000).catch(() => undefined);
  }
}

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
  created: createServices,
  afterUpdate: (cluster, { services = [] }) => {
    for (const service of services) cluster.updateService(service);
  },
  afterDeletingFirst: (cluster, _recorded, before) => {
    cluster.deleteService(names(before)[0] ?? "");
  },
  afterExcludingNode: (cluster) => cluster.labelNode(thirdNode(cluster).name, excludedLabel, "true"),
  afterIncludingNode: (cluster) => cluster.labelNode(thirdNode(cluster).name, excludedLabel, undefined),
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
