import {
  type Cloud,
  CodedError,
  type Explanation,
  type Fact,
  InstanceNotFoundError,
  isNotFound,
  keyOf,
  kinds,
  type KubeClient,
  type KubeEvent,
  messageOf,
  type Node,
} from "cloud-controller-host/sdk";

import type { PlanDocument } from "../changes/plan-schema.ts";
import { didYouMean, isMisspelled } from "../config/values/suggestion.ts";
import { nodeFacts, serviceFacts } from "../console/object-facts.ts";
import { redactText } from "../process/log/redact.ts";
import { changesAbout, failedSubject, planDocument } from "./document.ts";
import { type Inspection, makePlan, type PlanRequest } from "./plan.ts";

/** The object to explain. */
export type Subject =
  | { readonly kind: "service"; readonly namespace: string; readonly name: string }
  | { readonly kind: "node"; readonly name: string };

/** The document of `explain --output=json`. */
export interface ExplainDocument {
  readonly version: 1;
  /** `Service default/web` or `Node vm-0`. */
  readonly subject: string;
  /** The object, then its resources in the cloud. */
  readonly tree: readonly Explanation[];
  /** Changes that a host would make to it now. */
  readonly changes: PlanDocument["changes"];
  /** Reasons why a host refuses it in its current form. */
  readonly refused: readonly string[];
  /** Reads and plans that failed. */
  readonly failures: readonly string[];
}

const addressOf = { service: "namespace and name", node: "name" } as const;

/** Latest events shown. */
const maxEvents = 5;

/**
 * Reads everything about one object, and plans what a host would change about it. Sends no writes. `toCheck`: what else
 * may be wrong where the object does not exist.
 */
export async function explain(
  request: PlanRequest,
  subject: Subject,
  toCheck = "which cluster --kubeconfig names",
): Promise<ExplainDocument> {
  let tree: readonly Explanation[] = [];
  const unread: string[] = [];
  const named = subject.kind === "service" ? `Service ${subject.namespace}/${subject.name}` : `Node ${subject.name}`;
  const plan = await makePlan({
    ...request,
    async inspect(inspection) {
      unread.length = 0;
      const reading = treeOf(subject, inspection, (what, error) =>
        unread.push(redactText(`${what}: ${messageOf(error)}`)),
      );
      tree = await reading.catch((error: unknown) => {
        if (!isNotFound(error)) throw error;
        unread.push(
          `${named} does not exist${similar(subject, inspection)}: check its ${addressOf[subject.kind]}, and ${toCheck}`,
        );
        return [];
      });
    },
  });
  const document = planDocument(plan);
  // Without the failures of other objects, which say nothing about this one.
  const failures = document.failures.filter((failure) => (failedSubject(failure) ?? named) === named);
  return {
    version: 1,
    subject: named,
    tree: tree.map(withoutSecrets),
    changes: changesAbout(document, named),
    refused: document.refused.filter(({ resource }) => resource === named).map(({ reason }) => reason),
    failures: [...unread, ...failures],
  };
}

/** Names shown of those that there are, where none is similar. */
const maxNames = 5;

/**
 * ` (did you mean default/web?)`: the name in another namespace, or a similar one in its own; without either the first of
 * all.
 */
function similar(subject: Subject, { nodes, services }: Pick<Inspection, "nodes" | "services">): string {
  if (subject.kind === "node") return didYouMean(subject.name, nodes.map(keyOf), "") || someOf(nodes.map(keyOf));
  const elsewhere = services.filter(({ metadata }) => metadata?.name === subject.name).map(keyOf);
  if (elsewhere.length > 0) return ` (did you mean ${elsewhere.slice(0, 3).join(" or ")}?)`;
  const misspelled = services.filter(
    ({ metadata }) => metadata?.namespace === subject.namespace && isMisspelled(subject.name, [metadata?.name ?? ""]),
  );
  const balanced = services.filter(({ spec }) => spec?.type === "LoadBalancer");
  return didYouMean(`${subject.namespace}/${subject.name}`, misspelled.map(keyOf), "") || someOf(balanced.map(keyOf));
}

function someOf(names: readonly string[]): string {
  const more = names.length > maxNames ? `, and ${names.length - maxNames} more` : "";
  return names.length === 0 ? "" : ` (there are ${names.slice(0, maxNames).join(", ")}${more})`;
}

/** Annotations and events may contain anything. */
const withoutSecrets = ({ title, facts = [], children = [] }: Explanation): Explanation => ({
  title,
  facts: facts.map((fact) => ({ ...fact, value: redactText(fact.value) })),
  children: children.map(withoutSecrets),
});

/** Reads all parts. One that cannot be read is reported to `failed`, and the others are returned. */
async function treeOf(
  subject: Subject,
  { client, cloud, nodes, services }: Inspection,
  failed: (what: string, error: unknown) => void,
): Promise<readonly Explanation[]> {
  const part = <T>(what: string, read: () => Promise<readonly T[]>): Promise<readonly T[]> =>
    read().catch((error: unknown) => {
      failed(what, error);
      return [];
    });
  const ofCloud = `cloud "${cloud.name}"`;
  if (subject.kind === "service") {
    const { namespace, name } = subject;
    const service = await client.get(kinds.Service, { namespace, name });
    const [events, own] = await Promise.all([
      part("events", () => eventsOf(client, namespace, "Service", name)),
      part(ofCloud, () => cloudPart(cloud, () => cloud.explain?.service?.(service, nodes, services))),
    ]);
    return [{ title: `Service ${namespace}/${name}`, facts: [...serviceFacts(service), ...events] }, ...own];
  }
  const node = await client.get(kinds.Node, { name: subject.name });
  const [events, instance, own] = await Promise.all([
    part("events", () => eventsOf(client, "default", "Node", subject.name)),
    part("instance", () => instanceFacts(cloud, node)),
    part(ofCloud, () => cloudPart(cloud, () => cloud.explain?.node?.(node))),
  ]);
  const facts = [...nodeFacts(node), ...sameProviderID(node, nodes), ...instance, ...events];
  return [{ title: `Node ${subject.name}`, facts }, ...own];
}

async function cloudPart(
  cloud: Cloud,
  ask: () => Promise<readonly Explanation[]> | undefined,
): Promise<readonly Explanation[]> {
  return (await ask()) ?? [{ title: `cloud "${cloud.name}" does not explain this` }];
}

/** Two nodes of one instance: the pools have it once, and its deletion takes both. */
function sameProviderID({ metadata, spec }: Node, nodes: readonly Node[]): readonly Fact[] {
  const wanted = (spec?.providerID ?? "").toLowerCase();
  const others = nodes
    .filter((other) => wanted !== "" && other.spec?.providerID?.toLowerCase() === wanted)
    .flatMap((other) => other.metadata?.name ?? [])
    .filter((name) => name !== metadata?.name);
  if (others.length === 0) return [];
  return [{ name: "same provider ID", value: `${others.join(", ")}: all but one of these nodes are wrong` }];
}

async function instanceFacts({ instances }: Cloud, node: Node): Promise<readonly Fact[]> {
  if (instances === undefined) return [];
  const exists = await instances.instanceExists(node, { read: "fresh" });
  if (!exists) return [{ name: "instance", value: "does not exist" }];
  // A cloud keeps a node whose provider ID it cannot read, although it knows no such instance.
  const missing = await instances
    .instanceMetadata(node, { read: "fresh" })
    .then(() => undefined)
    .catch((error: unknown) => (error instanceof InstanceNotFoundError ? error : Promise.reject(error)));
  if (missing !== undefined && node.spec?.providerID)
    return [{ name: "instance", value: `none known to the cloud, nor by this provider ID: ${messageOf(missing)}` }];
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

/** The kinds of objects under the names that kubectl has for them. */
const kindNames: Readonly<Record<string, Subject["kind"]>> = {
  service: "service",
  services: "service",
  svc: "service",
  node: "node",
  nodes: "node",
  no: "node",
};

/** `service NAMESPACE/NAME` or `node NAME`, the kind under any of kubectl's names. Throws for anything else. */
export function subjectOf([word = "", name = ""]: readonly string[]): Subject {
  const kind = Object.hasOwn(kindNames, word) ? kindNames[word] : undefined;
  const [, namespace, ownName] = /^([^/]+)\/([^/]+)$/u.exec(name) ?? [];
  if (kind === "service" && namespace !== undefined && ownName !== undefined)
    return { kind: "service", namespace, name: ownName };
  if (kind === "node" && name !== "" && !name.includes("/")) return { kind: "node", name };
  if (kind === "service" && /^[^/-][^/]*$/u.test(name))
    throw new CodedError("InvalidFlags", `the Service "${name}" has no namespace; use service NAMESPACE/${name}`);
  if (kind !== undefined && name === "")
    throw new CodedError("InvalidFlags", `"${word}" needs a name; use service NAMESPACE/NAME or node NAME`);
  const given = [word, name].filter((part) => part !== "").join(" ");
  const problem = given === "" ? "no object is given" : `"${given}" is not an object that it can explain`;
  throw new CodedError("InvalidFlags", `${problem}; use service NAMESPACE/NAME or node NAME`);
}
