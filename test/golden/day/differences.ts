import { controllerNames, labels, type Lease, type Node, type Service, taints } from "cloud-controller-host/sdk";

import type { RecordedWrite } from "./writes.ts";

/** One way in which our day differs from the recorded one, and why. What no row names is the same to the letter. */
export interface Difference {
  readonly what: string;
  readonly reason: string;
  /** True if a recorded write is concerned. */
  readonly concerns: (write: RecordedWrite) => boolean;
  /** What ours is in its place; undefined: there is none. */
  readonly ours: (write: RecordedWrite) => RecordedWrite | undefined;
}

const firstStep = "nodes initialized, CIDRs given, routes made";

const isEvent = ({ uri }: RecordedWrite): boolean => uri.includes("/events");
const isLease = ({ uri }: RecordedWrite): boolean => uri.includes("/leases");
const bodyHas = ({ body }: RecordedWrite, text: string): boolean => JSON.stringify(body).includes(text);
const gone = (): undefined => undefined;

const without = (body: object, ...fields: readonly string[]): object =>
  Object.fromEntries(Object.entries(body).filter(([field]) => !fields.includes(field)));

const textReplaced = (write: RecordedWrite, from: string, to: string): RecordedWrite => ({
  ...write,
  body: JSON.parse(JSON.stringify(write.body).replaceAll(JSON.stringify(from), JSON.stringify(to))),
});

export const differences: readonly Difference[] = [
  {
    what: "the query of the Lease's writes names no timeout",
    reason: "the deadline of a request is kept by the client; the API server has one of its own",
    concerns: ({ uri }) => uri.endsWith("?timeout=5s"),
    ours: (write) => ({ ...write, uri: write.uri.replace("?timeout=5s", "") }),
  },
  {
    what: "renewals of the Lease",
    reason: "they follow the clock and not the day: the recording keeps two of each step, the test one of the first",
    concerns: (write) => isLease(write) && write.step !== firstStep && !bodyHas(write, "aks-managed-resource-locker"),
    ours: gone,
  },
  {
    what: "the Lease shows what its holder serves",
    reason: "a shard of the cluster's Services must not lead beside a process that serves them all",
    concerns: (write) => isLease(write) && write.step === firstStep && !bodyHas(write, "aks-managed-resource-locker"),
    ours: announcing,
  },
  {
    what: "the Lease of the resource locker",
    reason: "the Azure cloud takes it around its own work on load balancers, which a test cloud does on this day",
    concerns: (write) => isLease(write) && bodyHas(write, "aks-managed-resource-locker"),
    ours: gone,
  },
  {
    what: "events come from one client for all controllers",
    reason: "one broadcaster outlives all reloads, so that counts and spam filter do; it is a client of its own",
    concerns: (write) => isEvent(write) && write.client !== "cloud-controller-manager",
    ours: (write) => ({ ...write, client: "cloud-controller-manager" }),
  },
  {
    what: "a new event says nothing of eventTime",
    reason: "null is what an absent field is, too",
    concerns: (write) => isEvent(write) && write.verb === "create",
    ours: (write) => ({ ...write, body: without(write.body, "eventTime") }),
  },
  {
    what: "events on Services come from service-lb-controller, not service-controller",
    reason: "the canonical name of a controller is its name everywhere: flag, log, metric and event",
    concerns: (write) => isEvent(write) && bodyHas(write, "service-controller"),
    ours: (write) => textReplaced(write, "service-controller", controllerNames.serviceLB),
  },
  {
    what: "the PUT that initializes a node is a JSON patch of what changes",
    reason: "a PUT conflicts with every other writer of a node that joins; the patch tests only what it depends on",
    concerns: ({ verb, uri }) => verb === "update" && uri.startsWith("/api/v1/nodes/"),
    ours: (write) => ({ ...write, verb: "patch", body: initializationPatch(write.body) }),
  },
  {
    what: "writes of a node's CIDRs, addresses and conditions name its UID",
    reason: "one that arrives late, or is made on an outdated object, must not reach a node recreated under the name",
    concerns: (write) =>
      write.uri.startsWith("/api/v1/nodes/") &&
      ["podCIDRs", "$patch", "conditions"].some((field) => write.verb === "patch" && bodyHas(write, field)),
    ours: (write) => ({ ...write, body: { metadata: { uid: "<uid>" }, ...write.body } }),
  },
  {
    what: "the last finalizer is taken out by name, not by emptying the list",
    reason: "one that another writer adds at the same moment would be lost",
    concerns: (write) => JSON.stringify(write.body) === `{"metadata":{"finalizers":null}}`,
    ours: (write) => ({
      ...write,
      body: { metadata: { "$deleteFromPrimitiveList/finalizers": ["service.kubernetes.io/load-balancer-cleanup"] } },
    }),
  },
  {
    what: "the address goes with the last finalizer",
    reason: "the Service is gone after that, and a write of its status is answered with 404",
    concerns: ({ step, uri }) => step === "service deleted" && uri.includes("/services/"),
    ours: (write) =>
      write.status === 404
        ? undefined
        : { ...write, body: { ...write.body, status: { loadBalancer: { ingress: null } } } },
  },
  {
    what: "writes of a Service's status and finalizer name its UID",
    reason: "a Service that was recreated under the name must not get the address of the one before",
    concerns: (write) => write.verb === "patch" && write.uri.includes("/services/"),
    ours: (write) => ({ ...write, body: withUid(write.body) }),
  },
];

function withUid(body: object): object {
  const { metadata, ...rest }: Service = body;
  return { metadata: { uid: "<uid>", ...metadata }, ...rest };
}

function announcing(write: RecordedWrite): RecordedWrite {
  const lease: Lease = write.body;
  const annotations = { "cloud-controller-host/serves": "<cloud-controller-host/serves>" };
  return { ...write, body: { ...lease, metadata: { annotations, ...lease.metadata } } };
}

/** The patch that turns a node of the recorded day, as it joined, into the one of the PUT. */
function initializationPatch(body: object): object {
  const node: Node = body;
  const { providerID: value } = node.spec ?? {};
  const add = (label: string): object => ({
    op: "add",
    path: `/metadata/labels/${label.replaceAll("/", "~1")}`,
    value: node.metadata?.labels?.[label],
  });
  const uninitialized = "/spec/taints/0";
  return [
    { op: "test", path: "/metadata/uid", value: "<uid>" },
    { op: "add", path: "/spec/providerID", value },
    ...[
      labels.instanceTypeBeta,
      labels.instanceType,
      labels.zoneBeta,
      labels.zone,
      labels.regionBeta,
      labels.region,
    ].map(add),
    { op: "test", path: `${uninitialized}/key`, value: taints.uninitialized },
    { op: "remove", path: uninitialized },
  ];
}
