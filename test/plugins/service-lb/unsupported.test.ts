import { expect, setDefaultTimeout, test } from "bun:test";

import { kinds, type Service } from "cloud-controller-host/sdk";
import { eventually, type ManualClock, manualClock, memoryCloud } from "cloud-controller-host/sdk/testing";

import plugin from "../../../plugins/service-lb/plugin.ts";
import { TestCluster } from "../../kit/harness.ts";
import { aService, type ServiceFields } from "./objects.ts";

setDefaultTimeout(120_000);

interface RecordedEvent {
  readonly count: number;
  readonly reason: string;
  readonly message: string;
}

/** A cluster whose cloud has no load balancers. */
interface Scene extends AsyncDisposable {
  readonly cluster: TestCluster;
  readonly clock: ManualClock;
  service(fields?: ServiceFields): void;
  run(): ReturnType<TestCluster["run"]>;
  /** Advances time until the Service has that many events. */
  untilEvents(count: number, name?: string): Promise<void>;
  eventsOf(name: string): Promise<readonly RecordedEvent[]>;
}

async function open(): Promise<Scene> {
  const cluster = await TestCluster.start();
  const clock = manualClock();
  const { cloud } = memoryCloud({ without: ["loadBalancers"] });
  const eventsOf = async (name: string): Promise<readonly RecordedEvent[]> =>
    (await cluster.admin.list(kinds.Event))
      .filter(({ involvedObject }) => involvedObject.name === name)
      .map(({ count = 0, reason = "", message = "" }) => ({ count, reason, message }));
  return {
    cluster,
    clock,
    service: (fields) => void cluster.api.create(kinds.Service, aService(fields)),
    run: () => cluster.run(plugin, { cloud, clock }),
    eventsOf,
    async untilEvents(count, name = "web") {
      await eventually(`${count} events`, async () => {
        await clock.advance(10_000);
        return (await eventsOf(name)).length === count;
      });
    },
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
  };
}

const unsupported = (count = 1): RecordedEvent => ({
  count,
  reason: "LoadBalancerUnsupported",
  message: expect.stringContaining('the cloud provider "memory" does not support external load balancers'),
});
const balanced = { loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } };

test("records one Warning event for each pending Service and writes nothing else when the cloud has no load balancers", async () => {
  await using scene = await open();
  scene.service();
  scene.service({ name: "class", spec: { type: "LoadBalancer", loadBalancerClass: "example.com/other" } });
  scene.service({ name: "internal", spec: { type: "ClusterIP" } });
  scene.service({ name: "served", status: balanced });
  scene.service({ name: "deleted", meta: { finalizers: ["example.com/keep"] } });
  scene.cluster.api.delete(kinds.Service, { namespace: "default", name: "deleted" });
  await scene.run();
  await scene.untilEvents(1);
  const web = { namespace: "default", name: "web" };
  const labeled = scene.cluster.api.update(kinds.Service, web, (now) => ({
    ...now,
    metadata: { ...now.metadata, labels: { changed: "true" } },
  }));
  scene.service({ name: "later" });
  await scene.untilEvents(1, "later");
  expect(await scene.eventsOf("web")).toEqual([unsupported()]);
  expect(await scene.eventsOf("later")).toEqual([unsupported()]);
  expect(await scene.cluster.admin.list(kinds.Event)).toHaveLength(2);
  expect(scene.cluster.writes()).toEqual([]);
  expect(scene.cluster.api.get(kinds.Service, web)).toEqual(labeled);
});

test("a Service that wants a load balancer later gets its event then, and other changes of it add none", async () => {
  await using scene = await open();
  scene.service({ spec: { type: "ClusterIP" } });
  await scene.run();
  const web = { namespace: "default", name: "web" };
  const change = (to: (now: Service) => Service): void => void scene.cluster.api.update(kinds.Service, web, to);
  change((now) => ({ ...now, spec: { ...now.spec, type: "LoadBalancer" } }));
  await scene.untilEvents(1);
  const { store } = scene.cluster.generation(plugin).context.informers.of(kinds.Service);
  const sleepers = scene.clock.sleepers;
  change((now) => ({ ...now, metadata: { ...now.metadata, labels: { changed: "true" } } }));
  await eventually("the change is seen", () => store.get("default/web")?.metadata?.labels?.["changed"]);
  expect(scene.clock.sleepers).toBe(sleepers);
  expect(await scene.eventsOf("web")).toEqual([unsupported()]);
});

test("a Service that another controller serves within ten seconds gets no event", async () => {
  await using scene = await open();
  await scene.run();
  const sleepers = scene.clock.sleepers;
  scene.service();
  await eventually("it waits", () => scene.clock.sleepers > sleepers);
  await scene.clock.advance(9_999);
  expect(await scene.cluster.worked("service", 1)).toBe(false);
  const web = { namespace: "default", name: "web" };
  scene.cluster.api.update(kinds.Service, web, (now) => ({ ...now, status: balanced }), "status");
  const { store } = scene.cluster.generation(plugin).context.informers.of(kinds.Service);
  await eventually("the address is seen", () => store.get("default/web")?.status?.loadBalancer?.ingress);
  await scene.clock.advance(1);
  await eventually("it is synced", () => scene.cluster.worked("service", 1));
  expect(await scene.eventsOf("web")).toEqual([]);
  expect(scene.cluster.log.filter((line) => line.includes("LoadBalancerUnsupported"))).toEqual([]);
});

test("the event of a Service is counted again after a reload instead of repeated, and a recreated Service has its own", async () => {
  await using scene = await open();
  scene.service();
  const first = await scene.run();
  await scene.untilEvents(1, "web");
  await first[Symbol.asyncDispose]();
  await scene.run();
  await eventually("it is counted", async () => {
    await scene.clock.advance(10_000);
    return (await scene.eventsOf("web"))[0]?.count === 2;
  });
  expect(await scene.eventsOf("web")).toEqual([unsupported(2)]);
  scene.cluster.api.delete(kinds.Service, { namespace: "default", name: "web" });
  scene.service();
  await scene.untilEvents(2, "web");
  expect(await scene.eventsOf("web")).toEqual([unsupported(2), unsupported()]);
});
