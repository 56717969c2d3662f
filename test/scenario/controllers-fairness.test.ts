import { expect, setDefaultTimeout, test } from "bun:test";

import {
  CodedError,
  controllerNames,
  forEachConcurrently,
  isNotFound,
  isUninitialized,
  kinds,
  type KubeEvent,
  type Node,
} from "cloud-controller-host/sdk";
import type { CloudMethod } from "cloud-controller-host/sdk/testing";

import { serveCloud, type ServedCloud } from "../kit/cloud-server.ts";
import { startControllers } from "../kit/controllers-host.ts";
import { HostLab } from "../kit/host-under-test.ts";
import { getNode, joinNode, loseMachine, nodeName, setReady } from "../kit/kubelet.ts";
import { describeOnReal, writesAmong } from "../kit/platform.ts";
import { addressesOf, balancedService } from "../kit/services.ts";

/** For a machine that is several times slower and busy; each wait for a host has its own, shorter limit. */
setDefaultTimeout(180_000);

/** First in line wherever things are taken in the order of their names, as a list from the API server is. */
const bad = "a-bad";

/** How often an exponential backoff allows a key to be tried in a time that is known to have passed at most. */
const maxTries = (baseMs: number, passedMs: number): number => 1 + Math.floor(Math.log2(passedMs / baseMs + 1));

/** client-go's event spam filter: a burst, and one more every five minutes, for each object and type. */
const maxEvents = (passedMs: number): number => 25 + Math.ceil(passedMs / 300_000);

const numbered = (count: number, name: (index: number) => string): readonly string[] =>
  Array.from({ length: count }, (_, index) => name(index));

/** Has a method fail for one target, with another message each time, as a cloud does that numbers its requests. */
function failWithNumbers({ memory }: ServedCloud, method: CloudMethod, only: string): void {
  let requests = 0;
  memory.intercept(method, async ({ target, proceed }) => {
    if (target !== only) return await proceed();
    throw new CodedError("Refused", `request ${++requests} was refused`);
  });
}

const callsFor = ({ memory }: ServedCloud, method: CloudMethod, target: string): number =>
  memory.callsOf(method).filter((call) => call.target === target).length;

/** Good ones for which a method was not called exactly once. */
const notOnce = ({ memory }: ServedCloud, method: CloudMethod): readonly string[] =>
  [...Map.groupBy(memory.callsOf(method), ({ target }) => target)]
    .filter(([target, calls]) => !target.includes(bad) && calls.length !== 1)
    .map(([target]) => target);

describeOnReal("what fails for good", (platform, cluster) => {
  const lab = new HostLab(platform);

  /** Events about each of the objects, and the number of requests that wrote them. */
  const eventsAbout = async (
    objects: readonly string[],
  ): Promise<readonly { readonly kept: readonly KubeEvent[]; readonly writes: number }[]> => {
    const events = await platform().admin.list(kinds.Event);
    const sent = await cluster.audit.requests({ resource: "events", verbs: ["create", "patch"] });
    return objects.map((object) => {
      const kept = events.filter(({ involvedObject }) => involvedObject.name === object);
      const names = new Set(kept.map(({ metadata }) => metadata?.name));
      return { kept, writes: sent.filter((request) => names.has(request.name)).length };
    });
  };

  test("ten failing Services delay none of 200 with a single worker", async () => {
    const cloud = lab.use(await serveCloud());
    await joinNode(platform().admin, cloud.memory, "node-1");
    const failing = numbered(10, (index) => `${bad}-${index}`);
    for (const name of failing) failWithNumbers(cloud, "ensureLoadBalancer", `default/${name}`);
    const make = (names: readonly string[]): Promise<void> =>
      forEachConcurrently({ workers: 16 }, names, async (name) => {
        const service = balancedService(name, { allocateLoadBalancerNodePorts: false });
        await platform().admin.create(kinds.Service, service);
      });
    const good = numbered(200, (index) => `good-${index}`);
    await make([...failing, ...good]);

    const begun = performance.now();
    const most = (): number => maxTries(5_000, performance.now() - begun);
    const tries = (): readonly number[] =>
      failing.map((name) => callsFor(cloud, "ensureLoadBalancer", `default/${name}`));
    const host = await startControllers(lab, platform(), cloud, {
      controllers: [controllerNames.serviceLB],
      flags: ["--concurrent-service-syncs=1"],
    });
    await host.eventually("all good ones have a load balancer", () => cloud.memory.balancers.size === good.length);
    // A worker that slept through the first backoff of each failing Service would need 50 s for those alone.
    expect(performance.now() - begun).toBeLessThan(50_000);
    expect(Math.max(...tries())).toBeLessThanOrEqual(most());
    const first = cloud.memory.callsOf("ensureLoadBalancer").slice(0, failing.length);
    expect(first.map(({ target }) => target)).toEqual(failing.map((name) => `default/${name}`));

    await host.eventually("they are tried again", () => Math.min(...tries()) > 1);
    const late = numbered(20, (index) => `late-${index}`);
    await make(late);
    await host.eventually("late ones are served too, addresses and all", async () => {
      if (cloud.memory.balancers.size < good.length + late.length) return false;
      const services = await platform().admin.list(kinds.Service, { namespace: "default" });
      return services.filter((service) => addressesOf(service).length === 1).length === good.length + late.length;
    });

    expect(Math.max(...tries())).toBeLessThanOrEqual(most());
    expect(notOnce(cloud, "ensureLoadBalancer")).toEqual([]);
    const errors = host.lines("").filter((line) => line.startsWith("E"));
    expect(errors.filter((line) => !line.includes(bad))).toEqual([]);
    const events = await eventsAbout(failing);
    const written = writesAmong(await platform().requests()).filter(({ name }) => name.startsWith(bad));
    expect(new Set(written.map(({ resource }) => resource))).toEqual(new Set(["services/status"]));
    // Attempts are counted last: each of these counts may grow with an attempt that is made in the meantime.
    const tried = tries();
    for (const [index, name] of failing.entries()) {
      const attempts = tried[index] ?? 0;
      expect(errors.filter((line) => line.includes(`"default/${name}"`)).length).toBeLessThanOrEqual(attempts);
      expect(events[index]?.writes).toBeLessThanOrEqual(2 * attempts);
      // One write for the finalizer, and at most one per attempt for the condition with the error and the next retry.
      const writes = written.filter((write) => write.name === name).length;
      expect(writes).toBeGreaterThanOrEqual(2);
      expect(writes).toBeLessThanOrEqual(1 + attempts);
    }
  });

  test("one failing node delays none of 100 with a single worker", async () => {
    const cloud = lab.use(await serveCloud());
    const { admin } = platform();
    const good = numbered(100, nodeName);
    await forEachConcurrently({ workers: 16 }, [bad, ...good], (name) => joinNode(admin, cloud.memory, name));
    await setReady(admin, bad, "Unknown");
    for (const method of ["instanceMetadata", "instanceExists", "createRoute"] as const)
      failWithNumbers(cloud, method, bad);

    const begun = performance.now();
    const host = await startControllers(lab, platform(), cloud, {
      flags: ["--concurrent-node-syncs=1", "--node-status-update-frequency=1h", "--cluster-cidr=10.244.0.0/16"],
    });
    const settled = ({ spec, status }: Node): boolean =>
      status?.conditions?.some(({ reason }) => reason === "RouteCreated") === true && spec?.podCIDR !== undefined;
    await host.eventually("all good ones are initialized, and can be reached", async () => {
      if (cloud.memory.routes.size < good.length) return false;
      const nodes = await admin.list(kinds.Node);
      return nodes.filter((node) => settled(node) && !isUninitialized(node)).length === good.length;
    });
    await loseMachine(admin, cloud.memory, nodeName(7));
    await host.eventually("one whose machine is gone goes too", () =>
      getNode(admin, nodeName(7)).then(() => false, isNotFound),
    );
    await host.eventually("its route has been tried again and again", () => callsFor(cloud, "createRoute", bad) > 30);

    const changes = writesAmong(await platform().requests()).filter(({ name }) => name === bad);
    // A pod CIDR, and the condition that it has no route. Each is a change, and a node that changes is synced.
    expect(changes.map(({ verb, resource }) => `${verb} ${resource}`)).toEqual(["patch nodes", "patch nodes/status"]);
    const calls = (method: CloudMethod): number => callsFor(cloud, method, bad);
    const passed = (): number => performance.now() - begun;
    expect(calls("instanceMetadata")).toBeLessThanOrEqual(maxTries(5, passed()) + changes.length);
    expect(calls("createRoute")).toBeLessThanOrEqual(cloud.memory.callsOf("listRoutes").length);
    for (const method of ["instanceMetadata", "createRoute"] as const) expect(notOnce(cloud, method)).toEqual([]);

    const errors = host.lines(bad).filter((line) => line.startsWith("E")).length;
    expect(errors).toBeLessThanOrEqual(calls("instanceMetadata") + calls("instanceExists") + calls("createRoute"));
    const [events] = await eventsAbout([bad]);
    expect(events?.writes).toBeLessThanOrEqual(maxEvents(passed()));
    expect(events?.kept.length).toBeLessThanOrEqual(10);
    expect(events?.kept.at(-1)?.message).toContain("combined from similar events");
  });
});
