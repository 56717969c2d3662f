import { afterEach, expect, setSystemTime, test } from "bun:test";

import { kinds, type Node, taints } from "cloud-controller-host/sdk";
import { eventually, type ManualClock, manualClock } from "cloud-controller-host/sdk/testing";

import { freshNode } from "../../host/sandbox/kubelet.ts";
import { objectsAt, stringAt } from "../../plugins/azure-cloud/json.ts";
import type { Failure, RequestMatcher } from "../../plugins/azure-cloud/simulator/faults.ts";
import cloudNode from "../../plugins/cloud-node/plugin.ts";
import lifecycle from "../../plugins/lifecycle/plugin.ts";
import route from "../../plugins/route/plugin.ts";
import { TestCluster } from "../kit/harness.ts";
import { Random } from "../kit/random.ts";
import { openWorld, type World } from "../plugins/azure-cloud/world.ts";

/** Nodes at the start; the others join while requests fail. */
const nodeCount = 12;
const joiningCount = 3;
const periodMs = 5_000;
/** Limit of each wait, for a machine that is busy with other tests. */
const limitMs = 60_000;
/** Passes of the lifecycle controller in which faults occur, and after them. */
const faultyPasses = 80;
const calmPasses = 240;
/** Cached for so short a time that almost every pass reads ARM. */
const caches = { vmssVirtualMachinesCacheTTLInSeconds: 10, vmssCacheTTLInSeconds: 10, routeTableCacheTTLInSeconds: 10 };
const flags = {
  clusterCidr: "10.244.0.0/16",
  nodeStatusUpdateFrequency: 20_000,
  routeReconciliationPeriod: 10_000,
  nodeMonitorPeriod: periodMs,
};
/** Retries included; the seeds below need 1.3 to 2.4. Without caches and shared reads it would be one per node at least. */
const requestsPerPass = 6;
/** Requests for tokens; the seeds below need 0.1 to 0.5. Each revocation needs one, and one that fails is repeated. */
const loginsPerPass = 1;
const login: RequestMatcher = { method: "POST", path: "/oauth2/token" };

const tableId = "/providers/Microsoft.Network/routeTables/rt0";
const foreignRoutes = [
  { name: "users", properties: { addressPrefix: "192.168.0.0/16", nextHopType: "VnetLocal" } },
  {
    name: "firewall",
    properties: { addressPrefix: "0.0.0.0/0", nextHopType: "VirtualAppliance", nextHopIpAddress: "10.9.9.9" },
  },
];

const nameOf = (index: number): string => `vmss0${index.toString(36).padStart(6, "0")}`;

/** A real pause per pass without faults, in which the SDK's own retries of a login come to their end … */
const calmPauseMs = 25;
/** … and after these passes, as long as the sleep of a pass with a year's Retry-After: 60 s, on the SDK's own timer. */
const lastPauseMs = 500;
const longestLoginMs = 75_000;

/** A fault; it returns what ends it, or nothing where it ends by itself. */
type Fault = (world: World, random: Random) => (() => void) | undefined;

const targets: readonly RequestMatcher[] = [
  { path: /\/virtualMachineScaleSets$/u },
  { path: /\/virtualMachineScaleSets\/vmss0\/virtualMachines/u },
  { path: /\/virtualMachineScaleSets\/vmss0\/virtualMachines\/\d+$/u },
  { path: /\/virtualMachineScaleSets\/vmss0\/virtualMachines\/\d+$/u },
  { path: /\/networkInterfaces/u },
  { method: "GET", path: "/routeTables/" },
  { method: "PUT", path: "/routeTables/" },
  { path: "/subscriptions/" },
];

const failing =
  (failureOf: (random: Random) => Failure): Fault =>
  ({ simulator }, random) => {
    simulator.failNext(random.pick(targets) ?? {}, failureOf(random));
    return undefined;
  };

/** Revokes the token in use, so that the controllers log in again, and lets the login service fail. */
const refusingLogin =
  (failureOf: (random: Random) => Failure): Fault =>
  ({ simulator }, random) => {
    simulator.failNext(login, failureOf(random));
    simulator.revokeTokens();
    return undefined;
  };

const holding =
  (targetOf: (random: Random) => RequestMatcher): Fault =>
  ({ simulator }, random) => {
    const hold = simulator.hold(targetOf(random));
    held.add(hold);
    return () => {
      held.delete(hold);
      hold.release();
    };
  };

const faults: Readonly<Record<string, Fault>> = {
  throttled: failing((random) => ({
    status: 429,
    headers: { "retry-after": String(random.between(1, 40)) },
    times: random.between(1, 4),
  })),
  unavailable: failing((random) => ({
    status: random.pick([408, 500, 502, 503, 504]) ?? 500,
    times: random.between(1, 9),
  })),
  "wrong subscription": failing((random) => ({
    status: 404,
    code: "SubscriptionNotFound",
    times: random.between(1, 6),
  })),
  "token refused": failing((random) => ({
    status: 401,
    code: "InvalidAuthenticationToken",
    times: random.between(1, 6),
  })),
  "reply lost": failing((random) => ({ status: 500, stage: "response", times: random.between(1, 2) })),
  "connection reset": failing((random) => ({ status: 500, stage: "connection", times: random.between(1, 3) })),
  "list cut short"({ simulator }, random) {
    const first = random.between(0, nodeCount - 2);
    const names = [nameOf(first), nameOf(first + 1)];
    for (const name of names) simulator.changeInstance(name, { hidden: true });
    return () => names.forEach((name) => simulator.changeInstance(name, { hidden: false }));
  },
  "slow page": holding((random) => random.pick(targets) ?? {}),
  "token expired early"({ simulator }) {
    simulator.revokeTokens();
    return undefined;
  },
  "login throttled": refusingLogin((random) => ({
    status: 429,
    headers: { "retry-after": random.pick(["0", "1", "-5", "soon", "31536000"]) ?? "0" },
    times: random.between(1, 5),
  })),
  "login unavailable": refusingLogin((random) => ({
    status: random.pick([500, 502, 503, 504]) ?? 500,
    times: random.between(1, 5),
  })),
  "login cut off": refusingLogin((random) => ({ status: 200, stage: "connection", times: random.between(1, 4) })),
  "wrong tenant": refusingLogin((random) => ({
    status: 400,
    code: "invalid_request",
    message: "AADSTS90002: Tenant 'adfs' not found.",
    times: random.between(1, 6),
  })),
  "slow login"(world, random) {
    const end = holding(() => login)(world, random);
    world.simulator.revokeTokens();
    return end;
  },
};
const held = new Set<{ readonly waiting: () => number }>();

/** A cluster of nodes on one scale set, with the controllers that read ARM on a clock that is moved. */
class Scene implements AsyncDisposable {
  readonly cluster: TestCluster;
  readonly world: World;
  readonly #clock: ManualClock;
  readonly #stack: AsyncDisposableStack;

  private constructor(cluster: TestCluster, world: World, clock: ManualClock, stack: AsyncDisposableStack) {
    this.cluster = cluster;
    this.world = world;
    this.#clock = clock;
    this.#stack = stack;
  }

  static async open(pageSize: number): Promise<Scene> {
    await using opening = new AsyncDisposableStack();
    const cluster = opening.use(await TestCluster.start());
    const world = opening.use(await openWorld({ pageSize }));
    await world.simulator.addInstances(nodeCount + joiningCount);
    world.simulator.put(tableId, { properties: { routes: foreignRoutes } });
    const clock = manualClock(Date.now() + 3_600_000);
    const cloud = opening.use(await world.create(caches, { clock }));
    const scene = new Scene(cluster, world, clock, opening.move());
    for (let index = 0; index < nodeCount; index++) scene.join(index);
    for (const [plugin, own] of [[cloudNode], [route], [lifecycle, { gracePeriodSeconds: 0 }]] as const)
      await cluster.run(plugin, { cloud, clock, flags, own });
    await scene.pass();
    await eventually(
      "all nodes are initialized and routed",
      async () => {
        await scene.pass();
        return scene.nodes().every(isComplete) && scene.ownRoutes().length === nodeCount;
      },
      limitMs,
    );
    return scene;
  }

  join(index: number): void {
    const node = freshNode(nameOf(index), new Date());
    this.cluster.api.create(kinds.Node, { ...node, spec: { ...node.spec, podCIDRs: [`10.244.${index}.0/24`] } });
  }

  become(index: number, ready: "True" | "Unknown"): void {
    const conditions = [{ type: "Ready", status: ready }];
    const change = (node: Node): Node => ({ ...node, status: { ...node.status, conditions } });
    this.cluster.api.update(kinds.Node, { name: nameOf(index) }, change, "status");
  }

  nodes(): readonly Node[] {
    return this.cluster.api.list(kinds.Node);
  }

  /** Names and properties of the routes in the table. */
  routes(): readonly string[] {
    const { properties } = this.world.simulator.get(tableId) ?? {};
    return objectsAt(properties, "routes").map(
      (one) => `${stringAt(one, "name")} ${JSON.stringify(one["properties"])}`,
    );
  }

  ownRoutes(): readonly string[] {
    return this.routes().filter((line) => line.includes("____"));
  }

  /** Runs one pass of the lifecycle controller, and what the others do in that time. The SDK's time passes as well. */
  async pass(): Promise<void> {
    await this.#clock.advance(periodMs);
    setSystemTime(new Date(this.#clock.now()));
    let before = -1;
    let same = 0;
    await eventually(
      "the controllers rest",
      () => {
        const sent = this.cluster.sent();
        const waiting = [...held].reduce((sum, hold) => sum + hold.waiting(), 0);
        const busy = this.world.simulator.underway() > waiting || sent.some(({ status }) => status === undefined);
        const now = sent.length + this.world.simulator.log.length;
        same = !busy && now === before ? same + 1 : 0;
        before = now;
        return same >= 3;
      },
      limitMs,
    );
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

afterEach(() => {
  setSystemTime();
});

const isComplete = ({ spec, status }: Node): boolean =>
  Boolean(spec?.providerID) &&
  spec?.taints?.some(({ key }) => key === taints.uninitialized) !== true &&
  status?.addresses?.some(({ type }) => type === "InternalIP") === true;

const identityOf = ({ metadata, spec, status }: Node): unknown => [
  metadata?.name,
  metadata?.uid,
  spec?.providerID,
  status?.addresses,
];

test.each([20_261_122])(
  "no node, address or foreign route is lost while ARM fails in mixed ways, and everything recovers (seed %d)",
  async (seed) => {
    const random = new Random(seed);
    await using scene = await Scene.open(random.pick([3, 5, 20]) ?? 5);
    const { simulator } = scene.world;
    const before = scene.nodes().map(identityOf);
    const foreign = scene.routes().filter((line) => !line.includes("____"));
    expect(foreign).toHaveLength(foreignRoutes.length);
    const ends: (() => void)[] = [];
    const met = new Set<string>();
    let joined = nodeCount;
    simulator.clearLog();
    const unharmed = (): void => {
      expect(scene.nodes().slice(0, nodeCount).map(identityOf)).toEqual(before);
      expect(scene.routes().filter((line) => !line.includes("____"))).toEqual(foreign);
      expect(scene.ownRoutes().length).toBeGreaterThanOrEqual(nodeCount);
    };

    for (let pass = 0; pass < faultyPasses; pass++) {
      if (random.chance(0.5)) {
        const name = random.pick(Object.keys(faults)) ?? "";
        met.add(name);
        const end = faults[name]?.(scene.world, random);
        if (end !== undefined) ends.push(end);
      }
      if (random.chance(0.2)) ends.shift()?.();
      scene.become(random.between(0, nodeCount - 1), random.chance(0.7) ? "Unknown" : "True");
      if (joined < nodeCount + joiningCount && random.chance(0.15)) scene.join(joined++);
      await scene.pass();
      unharmed();
    }
    const failed = simulator.log.filter(({ status }) => status >= 400).length;
    const requests = simulator.log.length;
    const logins = simulator.log.filter(
      ({ method, path }) => method === "POST" && path.endsWith("/oauth2/token"),
    ).length;
    const traffic = `${requests} requests, ${logins} logins, ${failed} failed; ${[...met].join(", ")}`;
    expect(requests, traffic).toBeLessThanOrEqual(faultyPasses * requestsPerPass);
    expect(logins, traffic).toBeGreaterThan(0);
    expect(logins, traffic).toBeLessThanOrEqual(faultyPasses * loginsPerPass);

    for (const end of ends) end();
    simulator.clearFailures();
    while (joined < nodeCount + joiningCount) scene.join(joined++);
    for (let index = 0; index < nodeCount; index++) scene.become(index, "True");
    const endMs = performance.now() + longestLoginMs;
    for (let pass = 0; !isWell(scene) && (pass < calmPasses || performance.now() < endMs); pass++) {
      await Bun.sleep(pass < calmPasses ? calmPauseMs : lastPauseMs);
      await scene.pass();
    }
    unharmed();
    expect(isWell(scene)).toBe(true);

    await simulator.removeInstance(nameOf(0));
    scene.become(0, "Unknown");
    await eventually(
      "a node whose instance is really deleted is deleted, with its route",
      async () => {
        await scene.pass();
        return (
          scene.nodes().length === nodeCount + joiningCount - 1 &&
          scene.ownRoutes().length === nodeCount + joiningCount - 1
        );
      },
      limitMs,
    );
    expect(secretsIn(scene)).toEqual([]);
  },
  240_000,
);

/** The client's secret and the tokens that occur in what operators can read. */
function secretsIn({ cluster, world }: Scene): readonly string[] {
  const output = Bun.inspect([cluster.log, cluster.events(), world.logged, world.measured], { depth: 20 });
  const { aadClientSecret }: { readonly aadClientSecret: string } = JSON.parse(world.simulator.configWith({}));
  expect(output).toContain("no Azure token for client-secret");
  return [...output.matchAll(new RegExp(`${aadClientSecret}|\\bsim\\.[0-9a-f]{8}`, "gu"))].map(([secret]) => secret);
}

const isWell = (scene: Scene): boolean =>
  scene.nodes().length === nodeCount + joiningCount &&
  scene.nodes().every(isComplete) &&
  scene.ownRoutes().length === nodeCount + joiningCount;
