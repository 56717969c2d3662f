import type { Cloud } from "../cloud.ts";
import type { Node, Service } from "../kinds.ts";
import { keyOf } from "../kinds.ts";
import { balancerConformance } from "./cloud-conformance-balancer.ts";
import { type ConformanceTest, giveItAChance, must, within } from "./conformance.ts";

/** What the suite needs: a cloud with one machine that is known and runs. */
export interface CloudWorld extends AsyncDisposable {
  readonly cloud: Cloud;
  readonly clusterName: string;
  /** A node whose machine exists and runs. */
  readonly node: Node;
  /** A node as a kubelet would have registered it, whose machine does not exist. */
  readonly ghost: Node;
  /** A Service of type LoadBalancer without a load balancer; needed where the cloud has load balancers. */
  readonly service?: Service;
  /** How many writes the cloud has sent. */
  readonly writes: () => number;
  /** Delays every later answer of the cloud's backend by a minute, so that a call can be aborted while it waits. */
  readonly delayAnswers: () => void;
}

export interface CloudHarness {
  open(): Promise<CloudWorld>;
}

/** The promises that every cloud must keep, as tests for any runner. Capabilities that it lacks are passed over. */
export function cloudConformance(
  harness: CloudHarness,
  options: { readonly limitMs?: number } = {},
): readonly ConformanceTest[] {
  const { limitMs = 30_000 } = options;
  const inWorld = (name: string, check: (world: CloudWorld) => Promise<void>): ConformanceTest => ({
    name,
    async run() {
      await using world = await harness.open();
      await within(limitMs, `"${name}" must be shown`, check(world));
    },
  });
  return [
    inWorld("writes nothing when it is created, and nothing when it is asked", readsWithoutWriting),
    inWorld("knows its machines, cached and fresh", knowsItsMachines),
    inWorld("is sure that a machine does not exist only when it does not", missesWhatIsMissing),
    inWorld("says the same of a machine each time", isSteady),
    inWorld("rejects a call whose signal has aborted before it", rejectsAbortedCalls),
    inWorld("rejects a call whose signal aborts while the backend is silent", abandonsSilentCalls),
    ...balancerConformance(inWorld),
    inWorld("lists a route once it is made, and not once it is deleted", keepsRoutes),
    inWorld("names mask sizes that an address family can have", givesMasks),
    inWorld("ends its own work when the signal aborts", endsItsRun),
    inWorld("can be disposed of", disposes),
  ];
}

export type InCloudWorld = (name: string, check: (world: CloudWorld) => Promise<void>) => ConformanceTest;

async function readsWithoutWriting({ cloud, clusterName, node, service, writes }: CloudWorld): Promise<void> {
  must(cloud.name !== "", "it has no name");
  must(writes() === 0, "it wrote while it was created");
  await cloud.instances?.instanceMetadata(node);
  await cloud.routes?.listRoutes(clusterName);
  if (service !== undefined) await cloud.loadBalancers?.getLoadBalancer(clusterName, service);
  must(writes() === 0, "it wrote while it was asked");
}

async function knowsItsMachines({ cloud: { instances }, node }: CloudWorld): Promise<void> {
  if (instances === undefined) return;
  for (const read of ["cached", "fresh"] as const) {
    must(await instances.instanceExists(node, { read }), `read ${read}, a machine that runs does not exist`);
    must(!(await instances.instanceShutdown(node, { read })), `read ${read}, a machine that runs is shut down`);
  }
  const metadata = await instances.instanceMetadata(node);
  must(metadata !== undefined, "it has nothing to say about a machine that runs");
  must(metadata.providerID !== "", "a machine has no provider ID");
  must(metadata.nodeAddresses.length > 0, "a machine has no address");
  const seen = new Set(metadata.nodeAddresses.map(({ type, address }) => `${type} ${address}`));
  must(seen.size === metadata.nodeAddresses.length, "a machine has one address twice");
}

async function missesWhatIsMissing({ cloud: { instances }, ghost }: CloudWorld): Promise<void> {
  if (instances === undefined) return;
  must(!(await instances.instanceExists(ghost, { read: "fresh" })), `${keyOf(ghost)} has no machine and yet exists`);
  const metadata = await instances.instanceMetadata(ghost).catch(() => undefined);
  must(metadata === undefined, "it has metadata of a machine that does not exist");
}

async function isSteady({ cloud: { instances }, node }: CloudWorld): Promise<void> {
  if (instances === undefined) return;
  const first = JSON.stringify(await instances.instanceMetadata(node));
  const again = JSON.stringify(await instances.instanceMetadata(node, { read: "fresh" }));
  must(first === again, `it says first ${first} and then ${again}`);
}

/** All calls that read past the cache, under one signal. */
function freshCalls(
  { cloud, node }: CloudWorld,
  signal: AbortSignal,
): Promise<readonly PromiseSettledResult<unknown>[]> {
  const options = { signal, read: "fresh" } as const;
  const { instances } = cloud;
  return Promise.allSettled(
    instances === undefined
      ? []
      : [
          instances.instanceExists(node, options),
          instances.instanceShutdown(node, options),
          instances.instanceMetadata(node, options),
        ],
  );
}

const mustReject = (outcomes: readonly PromiseSettledResult<unknown>[]): void =>
  must(
    outcomes.every(({ status }) => status === "rejected"),
    "it answers a call whose signal has aborted",
  );

async function rejectsAbortedCalls(world: CloudWorld): Promise<void> {
  mustReject(await freshCalls(world, AbortSignal.abort()));
}

async function abandonsSilentCalls(world: CloudWorld): Promise<void> {
  world.delayAnswers();
  const caller = new AbortController();
  const outcomes = freshCalls(world, caller.signal);
  await giveItAChance();
  caller.abort();
  mustReject(await within(5_000, "a call whose signal aborts must end", outcomes));
}

async function keepsRoutes({ cloud: { routes }, clusterName, node }: CloudWorld): Promise<void> {
  if (routes === undefined) return;
  const destinationCIDR = "10.244.9.0/24";
  const listed = async (): Promise<readonly string[]> =>
    (await routes.listRoutes(clusterName))
      .filter((route) => route.destinationCIDR === destinationCIDR)
      .map(({ targetNode }) => targetNode);
  const targetNode = keyOf(node);
  const route = { name: "", targetNode, destinationCIDR, targetNodeAddresses: node.status?.addresses ?? [] };
  await routes.createRoute(clusterName, "hint", route);
  must((await listed()).join() === targetNode, `a route that was made is not listed, but: ${(await listed()).join()}`);
  const made = (await routes.listRoutes(clusterName)).find((one) => one.destinationCIDR === destinationCIDR);
  must(made !== undefined, "a route that was made has gone by itself");
  await routes.deleteRoute(clusterName, made);
  must((await listed()).length === 0, "a route that was deleted is still listed");
}

async function givesMasks({ cloud: { nodeMasks }, node }: CloudWorld): Promise<void> {
  if (nodeMasks === undefined) return;
  const { ipv4, ipv6 } = await nodeMasks.nodeMasks(node);
  must(ipv4 > 0 && ipv4 <= 32, `an IPv4 mask cannot have the size ${ipv4}`);
  must(ipv6 > 0 && ipv6 <= 128, `an IPv6 mask cannot have the size ${ipv6}`);
}

async function endsItsRun({ cloud }: CloudWorld): Promise<void> {
  const aborter = new AbortController();
  const run = cloud.run?.(aborter.signal);
  aborter.abort();
  await run;
}

async function disposes({ cloud }: CloudWorld): Promise<void> {
  await cloud[Symbol.asyncDispose]();
}
