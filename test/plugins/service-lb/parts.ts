import { FailingObjects, keyOf, kinds, type LoadBalancers, type Node, type Service } from "cloud-controller-host/sdk";
import { type ManualClock, manualClock, type MemoryCloud, memoryCloud } from "cloud-controller-host/sdk/testing";

import { ObjectStore } from "../../../host/kube/informers/store.ts";
import { type Backlog, backlogOf } from "../../../plugins/service-lb/backlog.ts";
import { serviceEvents } from "../../../plugins/service-lb/events.ts";
import { KeyedMutex } from "../../../plugins/service-lb/keyed-mutex.ts";
import { serviceMetrics } from "../../../plugins/service-lb/metrics.ts";
import type { NodeSyncParts } from "../../../plugins/service-lb/node-sync.ts";
import { currentNodes } from "../../../plugins/service-lb/nodes.ts";
import plugin from "../../../plugins/service-lb/plugin.ts";
import { serviceSelection } from "../../../plugins/service-lb/predicates.ts";
import { ServiceCache } from "../../../plugins/service-lb/service-cache.ts";
import { serviceWrites } from "../../../plugins/service-lb/service-writes.ts";
import type { SyncParts } from "../../../plugins/service-lb/sync.ts";
import { TestCluster } from "../../kit/harness.ts";
import { withoutUid } from "./objects.ts";

/** The parts of one controller on a cluster of its own, with stores that hold what the test says was seen. */
export interface Parts extends SyncParts, NodeSyncParts, AsyncDisposable {
  readonly clock: ManualClock;
  readonly cluster: TestCluster;
  readonly memory: MemoryCloud;
  readonly services: ObjectStore<Service>;
  readonly nodeStore: ObjectStore<Node>;
  readonly backlog: Backlog;
  /** Reports a change of a node, as its event does. */
  nodeChanged(): void;
  /** Creates the Service, status and all, and lets the controller see it. */
  seen(service: Service): Service;
  /** The Service as the API server has it. */
  stored(key: string): Service;
  /** Removes the Service at once, and lets the controller see it. */
  remove(service: Service): void;
  /** The bodies of the patches of a Service, oldest first, without the UID that each names. */
  patches(): readonly unknown[];
  /** The reasons of all events so far, oldest first. */
  reported(): readonly string[];
}

export async function makeParts(): Promise<Parts> {
  const cluster = await TestCluster.start();
  const memory = memoryCloud();
  const { context } = cluster.generation(plugin);
  const services = new ObjectStore<Service>();
  const nodeStore = new ObjectStore<Node>();
  const clock = manualClock(Date.UTC(2026, 0, 1));
  const reasons: string[] = [];
  let changes = 0;
  const events = serviceEvents({
    events: {
      event(subject, type, reason, message) {
        reasons.push(reason);
        context.events.event(subject, type, reason, message);
      },
    },
  });
  return {
    selection: serviceSelection({}),
    cluster,
    memory,
    services,
    nodeStore,
    balancers: balancersOf(memory),
    clusterName: "kubernetes",
    cache: new ServiceCache(),
    nodes: currentNodes(nodeStore),
    nodeChanges: () => changes,
    nodeChanged: () => void (changes += 1),
    backlog: backlogOf(context.workqueue("service")),
    mutex: new KeyedMutex(() => undefined),
    events,
    metrics: serviceMetrics(context),
    writes: serviceWrites({ ...context, clock }),
    failing: new FailingObjects("ServicesFail", clock),
    retryDelayMs: () => 5_000,
    shards: undefined,
    again: () => undefined,
    clock,
    log: context.log,
    seen(service) {
      const created = cluster.api.create(kinds.Service, service);
      services.set(created);
      return created;
    },
    stored(key) {
      const [namespace = "", name = ""] = key.split("/");
      const found = cluster.api.get(kinds.Service, { namespace, name });
      if (found === undefined) throw new Error(`Service ${key} does not exist`);
      return found;
    },
    remove(service) {
      const { namespace = "", name = "" } = service.metadata ?? {};
      cluster.api.update(kinds.Service, { namespace, name }, (now) => ({
        ...now,
        metadata: { ...now.metadata, finalizers: [] },
      }));
      cluster.api.delete(kinds.Service, { namespace, name });
      services.delete(service);
    },
    patches: () => cluster.sent({ method: "PATCH" }).map(({ body }) => withoutUid(body)),
    reported: () => reasons,
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
  };
}

function balancersOf({ cloud }: MemoryCloud): LoadBalancers {
  if (cloud.loadBalancers === undefined) throw new Error("the cloud in memory has load balancers");
  return cloud.loadBalancers;
}

/** The cloud has a load balancer for the Service already. */
export function alreadyBalanced(memory: MemoryCloud, service: Service, ...nodes: readonly string[]): void {
  const status = { ingress: [{ ip: "8.8.8.8" }] };
  memory.balancers.set(keyOf(service), { name: "given", clusterName: "kubernetes", nodes, status });
}
