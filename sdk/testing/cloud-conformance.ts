import { keyOf } from "../kinds.ts";
import { balancerConformance } from "./cloud-conformance-balancer.ts";
import type { CloudFixture, CloudHarness, CloudTest } from "./cloud-harness.ts";
import { allowForUnwantedWork, type ConformanceTest, must, within, withSkips } from "./conformance.ts";

/** Tests of the `Cloud` contract, for any test runner. Those of an absent capability pass. */
export function cloudConformance(
  harness: CloudHarness,
  options: { readonly limitMs?: number; readonly skip?: Readonly<Record<string, string>> } = {},
): readonly ConformanceTest[] {
  const { limitMs = 30_000 } = options;
  const inFixture: CloudTest = (name, check) => ({
    name,
    async run() {
      await using fixture = await harness.open();
      await within(limitMs, `"${name}" must pass`, check(fixture));
    },
  });
  const tests = [
    inFixture("create and reads write nothing", readsWithoutWriting),
    inFixture("a running instance exists and has metadata, cached and fresh", findsInstance),
    inFixture("a missing instance does not exist and has no metadata", missesGhost),
    inFixture("metadata is stable", isStable),
    inFixture("a call whose signal is already aborted rejects", rejectsAbortedCalls),
    inFixture("a call rejects when its signal aborts while the backend does not reply", abandonsCallsInFlight),
    ...balancerConformance(inFixture),
    inFixture("a route is listed after it is created and not after it is deleted", createsAndDeletesRoutes),
    inFixture("node mask sizes are valid prefix lengths", returnsMasks),
    inFixture("run resolves when its signal aborts", endsRun),
    inFixture("disposal succeeds", disposes),
  ];
  return withSkips(tests, options.skip);
}

async function readsWithoutWriting({ cloud, clusterName, node, service, writes }: CloudFixture): Promise<void> {
  must(cloud.name !== "", "the cloud has no name");
  must(writes() === 0, "create wrote to the backend");
  await cloud.instances?.instanceMetadata(node);
  await cloud.routes?.listRoutes(clusterName);
  if (service !== undefined) await cloud.loadBalancers?.getLoadBalancer(clusterName, service);
  must(writes() === 0, "a read wrote to the backend");
}

async function findsInstance({ cloud: { instances }, node }: CloudFixture): Promise<void> {
  if (instances === undefined) return;
  for (const read of ["cached", "fresh"] as const) {
    must(await instances.instanceExists(node, { read }), `instanceExists (${read}) is false for a running instance`);
    must(
      !(await instances.instanceShutdown(node, { read })),
      `instanceShutdown (${read}) is true for a running instance`,
    );
  }
  const metadata = await instances.instanceMetadata(node);
  must(metadata !== undefined, "instanceMetadata is undefined for a running instance");
  must(metadata.providerID !== "", "metadata has no provider ID");
  must(metadata.nodeAddresses.length > 0, "metadata has no address");
  const seen = new Set(metadata.nodeAddresses.map(({ type, address }) => `${type} ${address}`));
  must(seen.size === metadata.nodeAddresses.length, "metadata repeats an address");
}

async function missesGhost({ cloud: { instances }, ghost }: CloudFixture): Promise<void> {
  if (instances === undefined) return;
  must(
    !(await instances.instanceExists(ghost, { read: "fresh" })),
    `instanceExists is true for ${keyOf(ghost)}, which has no instance`,
  );
  const metadata = await instances.instanceMetadata(ghost).catch(() => undefined);
  must(metadata === undefined, "instanceMetadata returned metadata for a missing instance");
}

async function isStable({ cloud: { instances }, node }: CloudFixture): Promise<void> {
  if (instances === undefined) return;
  const first = JSON.stringify(await instances.instanceMetadata(node));
  const again = JSON.stringify(await instances.instanceMetadata(node, { read: "fresh" }));
  must(first === again, `metadata changed from ${first} to ${again}`);
}

/** Every uncached instance call, with one signal. */
function freshCalls(
  { cloud, node }: CloudFixture,
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
    "a call whose signal has aborted did not reject: pass `signal` on to the backend",
  );

async function rejectsAbortedCalls(fixture: CloudFixture): Promise<void> {
  mustReject(await freshCalls(fixture, AbortSignal.abort()));
}

async function abandonsCallsInFlight(fixture: CloudFixture): Promise<void> {
  fixture.delayAnswers();
  const caller = new AbortController();
  const outcomes = freshCalls(fixture, caller.signal);
  await allowForUnwantedWork();
  caller.abort();
  mustReject(await within(5_000, "a call whose signal aborts must end", outcomes));
}

async function createsAndDeletesRoutes({ cloud: { routes }, clusterName, node }: CloudFixture): Promise<void> {
  if (routes === undefined) return;
  const destinationCIDR = "10.244.9.0/24";
  const listed = async (): Promise<readonly string[]> =>
    (await routes.listRoutes(clusterName))
      .filter((route) => route.destinationCIDR === destinationCIDR)
      .map(({ targetNode }) => targetNode);
  const targetNode = keyOf(node);
  const route = { name: "", targetNode, destinationCIDR, targetNodeAddresses: node.status?.addresses ?? [] };
  await routes.createRoute(clusterName, "hint", route);
  must((await listed()).join() === targetNode, `a created route is not listed; listed are: ${(await listed()).join()}`);
  const created = (await routes.listRoutes(clusterName)).find((one) => one.destinationCIDR === destinationCIDR);
  must(created !== undefined, "a created route has disappeared");
  await routes.deleteRoute(clusterName, created);
  must((await listed()).length === 0, "a deleted route is still listed");
}

async function returnsMasks({ cloud: { nodeMasks }, node }: CloudFixture): Promise<void> {
  if (nodeMasks === undefined) return;
  const { ipv4, ipv6 } = await nodeMasks.nodeMasks(node);
  must(ipv4 > 0 && ipv4 <= 32, `${ipv4} is not an IPv4 mask size`);
  must(ipv6 > 0 && ipv6 <= 128, `${ipv6} is not an IPv6 mask size`);
}

async function endsRun({ cloud }: CloudFixture): Promise<void> {
  const aborter = new AbortController();
  const run = cloud.run?.(aborter.signal);
  aborter.abort();
  await run;
}

async function disposes({ cloud }: CloudFixture): Promise<void> {
  await cloud[Symbol.asyncDispose]();
}
