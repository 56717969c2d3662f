import { CodedError, controllerNames, forEachConcurrently, kinds, labels } from "cloud-controller-host/sdk";

import { freshNode } from "../../host/sandbox/kubelet.ts";
import { type AuditMark, writeVerbs } from "../envtest/audit.ts";
import { createNode } from "../kit/azure.ts";
import { HostProcess } from "../kit/host-process.ts";
import { hostUser } from "../kit/host-roles.ts";
import { joinNode, nodeName, setReady } from "../kit/kubelet.ts";
import { balancedService, deleteService, patchService } from "../kit/services.ts";
import { controllerFlags, type ControllersWorld } from "./controllers-alone.ts";
import { type Figure, percentile } from "./report.ts";
import { memoryOf, phaseMs, until } from "./world.ts";

/** One thing that happens in a settled cluster, and the calls to the cloud that it should cost. */
interface Event {
  readonly name: string;
  readonly happen: (world: ControllersWorld) => Promise<unknown>;
  readonly calls: (services: number) => string;
}

const none = (): string => "none";
const labeled = (world: ControllersWorld, name: string, all: Readonly<Record<string, string>>): Promise<unknown> =>
  world.cluster.admin.patch(kinds.Node, { name }, "merge", { metadata: { labels: all } });

/** In this order: each begins where the one before it has ended. */
const events: readonly Event[] = [
  // Its kubelet says its provider ID.
  {
    name: "nodeAdded",
    happen: (world) => register(world, "added-1", { providerID: "test-cloud://added-1" }),
    calls: (services) => `${services} updateLoadBalancer, 1 createRoute, 1 instanceMetadata`,
  },
  // Its provider ID is said by us: to a load balancer it is another node once it has one.
  {
    name: "nodeAddedUnknown",
    happen: ({ cluster, cloud }) => joinNode(cluster.admin, cloud.memory, "added-2"),
    calls: (services) => `${services} to ${2 * services} updateLoadBalancer, 1 createRoute, 1 instanceMetadata`,
  },
  // It takes no traffic.
  {
    name: "nodeAddedExcluded",
    happen: (world) => register(world, "added-3", { labels: { [labels.excludeFromLoadBalancers]: "" } }),
    calls: () => "1 createRoute, 1 instanceMetadata",
  },
  {
    name: "nodeLabelled",
    happen: (world) => labeled(world, nodeName(1), { mine: "1" }),
    calls: none,
  },
  {
    name: "heartbeats",
    happen: ({ cluster, nodes }) =>
      forEachConcurrently(
        { workers: 16 },
        Array.from({ length: Math.min(100, nodes) }, (_, index) => nodeName(index + 1)),
        (name) => setReady(cluster.admin, name, "True"),
      ),
    calls: none,
  },
  {
    name: "nodeExcluded",
    happen: (world) => labeled(world, nodeName(1), { [labels.excludeFromLoadBalancers]: "true" }),
    calls: (services) => `${services} updateLoadBalancer`,
  },
  {
    name: "nodeRemoved",
    happen: ({ cluster }) => cluster.admin.delete(kinds.Node, { name: "added-1" }),
    calls: (services) => `${services} updateLoadBalancer, 1 deleteRoute`,
  },
  {
    name: "nodeRemovedExcluded",
    happen: ({ cluster }) => cluster.admin.delete(kinds.Node, { name: "added-3" }),
    calls: () => "1 deleteRoute",
  },
  {
    name: "serviceAdded",
    happen: ({ cluster }) => cluster.admin.create(kinds.Service, balancedService("added")),
    calls: () => "1 ensureLoadBalancer",
  },
  {
    name: "serviceChanged",
    happen: ({ cluster }) => patchService(cluster.admin, "added", { spec: { ports: [{ port: 81, protocol: "TCP" }] } }),
    calls: () => "1 ensureLoadBalancer",
  },
  {
    name: "serviceRelabelled",
    happen: ({ cluster }) =>
      patchService(cluster.admin, "added", { metadata: { labels: { a: "b" } }, spec: { selector: { app: "b" } } }),
    calls: none,
  },
  {
    name: "serviceRemoved",
    happen: ({ cluster }) => deleteService(cluster.admin, "added"),
    calls: () => "1 ensureLoadBalancerDeleted, 1 getLoadBalancer",
  },
  {
    name: "clusterIpAdded",
    happen: ({ cluster }) => cluster.admin.create(kinds.Service, balancedService("inside", { type: "ClusterIP" })),
    calls: none,
  },
];

const rounds = 9;

/** Runs all controllers in one host on the settled cluster, and lets one thing happen after the other. */
export async function costOfEvents(world: ControllersWorld): Promise<readonly Figure[]> {
  const flags = await controllerFlags(world, Object.values(controllerNames));
  await using host = new HostProcess({ flags: [...flags, "--route-reconciliation-period=1s"] });
  await host.until("all controllers run", ({ running }) => running);
  await quiet(world, await world.cluster.audit.mark());
  const figures: Figure[] = [];
  for (const event of events) figures.push(...(await costOf(world, event)));
  const delays: number[] = [];
  for (let round = 0; round < rounds; round++) delays.push(await delayOfService(world, `delay-${round}`));
  figures.push(
    { name: "serviceDelayMs", value: percentile(delays, 0.5), unit: "ms from its creation to its load balancer" },
    { name: "allPeakRssMiB", value: await memoryOf(host.pid, "VmHWM"), unit: "MiB, all five controllers in one host" },
  );
  await host.stop();
  return figures;
}

async function costOf(world: ControllersWorld, event: Event): Promise<readonly Figure[]> {
  const since = await world.cluster.audit.mark();
  const before = askedFor(world).length;
  const begun = performance.now();
  await event.happen(world);
  const seconds = ((await quiet(world, since)) - begun) / 1000;
  const calls = askedFor(world).slice(before);
  const writes = await writesSince(world, since);
  const isEvent = (write: string): boolean => write.endsWith(" events");
  const others = counted(writes.filter((write) => !isEvent(write)));
  const unit = "s until the last load balancer has heard of it";
  return [
    { name: event.name, value: counted(calls), aim: event.calls(world.services) },
    { name: `${event.name}Writes`, value: `${others}; ${writes.filter(isEvent).length} events` },
    ...(calls.length < world.services ? [] : [{ name: `${event.name}Seconds`, value: seconds, unit }]),
  ];
}

/** The methods that the cloud was asked for, but for what it is asked for in every period. */
const askedFor = ({ cloud }: ControllersWorld): readonly string[] =>
  cloud.memory.calls.map(({ method }) => method).filter((method) => method !== "listRoutes");

async function writesSince({ cluster }: ControllersWorld, since: AuditMark): Promise<readonly string[]> {
  const requests = await cluster.audit.requests({ user: hostUser, verbs: writeVerbs, since });
  return requests.filter(({ resource }) => resource !== "leases").map(({ verb, resource }) => `${verb} ${resource}`);
}

/** `2 patch nodes, 1 update nodes`. */
function counted(things: readonly string[]): string {
  const groups = [...Map.groupBy(things, (thing) => thing)].map(([thing, all]) => ({ thing, count: all.length }));
  const sorted = groups.toSorted((one, other) => other.count - one.count || (one.thing < other.thing ? -1 : 1));
  return sorted.length === 0 ? "none" : sorted.map(({ thing, count }) => `${count} ${thing}`).join(", ");
}

/**
 * Resolves when for two seconds, in which routes are looked at, the host has neither asked nor written anything; with
 * the moment of the last question.
 */
async function quiet(world: ControllersWorld, since: AuditMark): Promise<number> {
  let requested = askedFor(world).length;
  let written = -1;
  let askedAt = performance.now();
  let stillSince = askedAt;
  const deadline = askedAt + phaseMs;
  while (performance.now() - stillSince < 2_000 || world.cloud.underWay > 0) {
    if (performance.now() > deadline)
      throw new CodedError("NotQuiet", `the host is not quiet after ${phaseMs / 1000} s: ${askedFor(world).at(-1)}`);
    for (let look = 0; look < 10; look++) {
      await Bun.sleep(25);
      if (askedFor(world).length === requested) continue;
      requested = askedFor(world).length;
      askedAt = performance.now();
      stillSince = askedAt;
    }
    const now = (await writesSince(world, since)).length;
    if (now !== written) stillSince = performance.now();
    written = now;
  }
  return askedAt;
}

async function delayOfService({ cluster, cloud }: ControllersWorld, name: string): Promise<number> {
  const begun = performance.now();
  await cluster.admin.create(kinds.Service, balancedService(name));
  await until(`Service ${name} has a load balancer`, () => cloud.memory.balancers.has(`default/${name}`), {
    everyMs: 1,
  });
  return performance.now() - begun;
}

interface Registration {
  readonly providerID?: string;
  readonly labels?: Readonly<Record<string, string>>;
}

/** As `joinNode`, with what the kubelet says of the node from the first. */
async function register({ cluster, cloud }: ControllersWorld, name: string, more: Registration): Promise<void> {
  const { providerID, labels: given } = more;
  cloud.memory.machines.set(name, { nodeAddresses: [{ type: "InternalIP", address: "10.250.0.1" }] });
  const fresh = freshNode(name, new Date());
  await createNode(cluster.admin, {
    ...fresh,
    metadata: { ...fresh.metadata, labels: { ...fresh.metadata?.labels, ...given } },
    spec: { ...fresh.spec, ...(providerID === undefined ? {} : { providerID }) },
  });
}
