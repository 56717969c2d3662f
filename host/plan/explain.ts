import {
  type Cloud,
  CodedError,
  type Explanation,
  type Fact,
  kinds,
  type KubeClient,
  type KubeEvent,
  type Node,
} from "cloud-controller-host/sdk";

import { nodeFacts, serviceFacts } from "../console/object-facts.ts";
import { type PlanDocument, planDocument } from "./document.ts";
import { type Inspection, makePlan, type PlanRequest } from "./plan.ts";

/** What is asked about. */
export type Subject =
  | { readonly kind: "service"; readonly namespace: string; readonly name: string }
  | { readonly kind: "node"; readonly name: string };

/** The document of `explain --output=json`. */
export interface ExplainDocument {
  readonly version: 1;
  /** `Service default/web` or `Node vm-0`. */
  readonly subject: string;
  /** What exists: the object, then what it has in the cloud. */
  readonly tree: readonly Explanation[];
  /** What a host would change about it now. */
  readonly changes: PlanDocument["changes"];
  /** What could not be read or planned. */
  readonly failures: readonly string[];
}

/** Latest events shown. */
const maxEvents = 5;

/** Reads all that there is about one object, and plans what a host would change about it. Sends no write. */
export async function explain(request: PlanRequest, subject: Subject): Promise<ExplainDocument> {
  let tree: readonly Explanation[] = [];
  const plan = await makePlan({
    ...request,
    async inspect(inspection) {
      tree = await treeOf(subject, inspection);
    },
  });
  const named = subject.kind === "service" ? `Service ${subject.namespace}/${subject.name}` : `Node ${subject.name}`;
  const { changes, failures } = planDocument(plan);
  const about = changes.filter(({ resource, reasons }) => resource === named || reasons.includes(named));
  return { version: 1, subject: named, tree, changes: about, failures };
}

async function treeOf(
  subject: Subject,
  { client, cloud, nodes, services }: Inspection,
): Promise<readonly Explanation[]> {
  if (subject.kind === "service") {
    const { namespace, name } = subject;
    const service = await client.get(kinds.Service, { namespace, name });
    const events = await eventsOf(client, namespace, "Service", name);
    const own = await cloudPart(cloud, () => cloud.explain?.service?.(service, nodes, services));
    return [{ title: `Service ${namespace}/${name}`, facts: [...serviceFacts(service), ...events] }, ...own];
  }
  const node = await client.get(kinds.Node, { name: subject.name });
  const events = await eventsOf(client, "default", "Node", subject.name);
  const own = await cloudPart(cloud, () => cloud.explain?.node?.(node));
  const instance = await instanceFacts(cloud, node);
  return [{ title: `Node ${subject.name}`, facts: [...nodeFacts(node), ...instance, ...events] }, ...own];
}

async function cloudPart(
  cloud: Cloud,
  ask: () => Promise<readonly Explanation[]> | undefined,
): Promise<readonly Explanation[]> {
  return (await ask()) ?? [{ title: `cloud "${cloud.name}" does not explain this` }];
}

async function instanceFacts({ instances }: Cloud, node: Node): Promise<readonly Fact[]> {
  if (instances === undefined) return [];
  const exists = await instances.instanceExists(node, { read: "fresh" });
  if (!exists) return [{ name: "instance", value: "does not exist" }];
  const isShutDown = await instances.instanceShutdown(node, { read: "fresh" });
  return [{ name: "instance", value: isShutDown ? "shut down" : "running" }];
}

async function eventsOf(client: KubeClient, namespace: string, kind: string, name: string): Promise<readonly Fact[]> {
  const fieldSelector = `involvedObject.kind=${kind},involvedObject.name=${name}`;
  const events = await client.list(kinds.Event, { namespace, fieldSelector });
  return events
    .toSorted((one, other) => timeOf(one).localeCompare(timeOf(other)))
    .slice(-maxEvents)
    .map((event) => ({
      name: `event ${event.reason ?? ""}`,
      value: `${timeOf(event)}${repeated(event.count)}: ${event.message ?? ""}`,
    }));
}

const repeated = (count = 1): string => (count > 1 ? ` (${count} times)` : "");

const timeOf = ({ lastTimestamp, eventTime, metadata }: KubeEvent): string =>
  lastTimestamp ?? eventTime ?? metadata?.creationTimestamp ?? "";

/** `service NAMESPACE/NAME` or `node NAME`. Throws for anything else. */
export function subjectOf([kind = "", name = ""]: readonly string[]): Subject {
  const [, namespace, ownName] = /^([^/]+)\/([^/]+)$/u.exec(name) ?? [];
  if (kind === "service" && namespace !== undefined && ownName !== undefined)
    return { kind: "service", namespace, name: ownName };
  if (kind === "node" && name !== "" && !name.includes("/")) return { kind: "node", name };
  throw new CodedError("InvalidFlags", "explain what? Use: explain service NAMESPACE/NAME, or explain node NAME");
}
