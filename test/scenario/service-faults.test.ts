import { expect, setDefaultTimeout, test } from "bun:test";

import { forEachConcurrently, keyOf, kinds, type Service } from "cloud-controller-host/sdk";

import type { Failure, RequestMatcher } from "../../plugins/azure-cloud/simulator/faults.ts";
import { hurriedClock } from "../kit/clocks.ts";
import { Random } from "../kit/random.ts";
import { addressesOf, balancedService, deleteService, finalizersOf } from "../kit/services.ts";
import { AzureView } from "./service-features.ts";
import { describeServices, describeServicesOnReal, type ServiceLab } from "./service-lab.ts";

setDefaultTimeout(180_000);

const puts: RequestMatcher = { method: "PUT", path: "/providers/Microsoft.Network/" };

/** Every way in which ARM fails that a write must survive. */
const faults: readonly (readonly [RequestMatcher, Failure])[] = [
  [{ path: "/providers/" }, { status: 429, headers: { "retry-after": "1" } }],
  [{ path: "/providers/" }, { status: 503 }],
  [puts, { status: 412 }],
  [puts, { status: 409, code: "AnotherOperationInProgress" }],
  [puts, { status: 500, code: "InternalServerError", stage: "operation" }],
  [puts, { status: 504, stage: "response" }],
  [puts, { status: 200, stage: "connection" }],
  [
    { method: "PUT", path: "/virtualMachines/" },
    { status: 409, code: "Conflict" },
  ],
  [{ method: "DELETE" }, { status: 409, code: "Conflict" }],
];

const named = (count: number): readonly Service[] =>
  Array.from({ length: count }, (_, index) => balancedService(`web-${index}`));

const balanced = async ({ admin }: ServiceLab): Promise<readonly Service[]> =>
  (await admin.list(kinds.Service, { namespace: "default" })).filter(({ spec }) => spec?.type === "LoadBalancer");

const allServed = async (lab: ServiceLab, count: number): Promise<readonly Service[] | undefined> => {
  const services = await balanced(lab);
  const isServed = services.every((service) => addressesOf(service).length > 0);
  return isServed && services.length === count ? services : undefined;
};

/**
 * One connection each. Bun's server resets those that have not sent a request 10 s after they were accepted: on a busy
 * machine, the handshakes of hundreds take longer.
 */
const atOnce = { workers: 32 };

/**
 * kube-apiserver removes an object whose first finalizer is added while it is being deleted. No controller that stops
 * then learns of that, upstream's neither.
 */
const hasFinalizer = async ({ admin }: ServiceLab, { metadata }: Service): Promise<boolean> =>
  finalizersOf(await admin.get(kinds.Service, { namespace: "default", name: metadata?.name ?? "" })).length > 0;

const removeAll = async (lab: ServiceLab, services: readonly Service[]): Promise<void> => {
  await forEachConcurrently(atOnce, services, ({ metadata }) => deleteService(lab.admin, metadata?.name ?? ""));
  await lab.eventually("all are gone", async () => (await balanced(lab)).length === 0);
};

describeServices("many Services", (open) => {
  test("200 created and deleted at once have an address each in few writes, and leave nothing", async () => {
    await using lab = await open();
    const azure = new AzureView(lab.simulator);
    const start = azure.footprint();
    await lab.start();
    lab.simulator.clearLog();
    await forEachConcurrently(atOnce, named(200), async (service) => void (await lab.create(service)));
    const services = await lab.eventually("all have an address", () => allServed(lab, 200));
    expect(new Set(services.flatMap((service) => addressesOf(service))).size).toBe(200);
    expect(azure.items("frontendIPConfigurations").size).toBe(200);
    const shared = lab.armWrites().filter((write) => /loadBalancers|networkSecurityGroups/u.test(write));
    expect(shared.length).toBeLessThan(100);
    await removeAll(lab, services);
    expect(azure.footprint()).toEqual(start);
  });
});

/** The simulation of the whole system does this on the sandbox, in more ways. */
describeServicesOnReal("Services amid faults", (open) => {
  for (const seed of [22])
    test(`converge once a mixture of faults and stops ends, and write nothing after a stop (seed ${seed})`, async () => {
      const random = new Random(seed);
      await using lab = await open({ clock: hurriedClock(50), simulator: { operationPolls: 1 } });
      const azure = new AzureView(lab.simulator);
      const start = azure.footprint();
      const wanted = new Map<string, Service>();
      for (let round = 0; round < 6; round++) {
        for (let index = 0; index < 4; index++)
          lab.simulator.failNext(...(random.pick(faults) ?? [puts, { status: 412 }]));
        await lab.start();
        for (const service of named(10)) {
          const key = keyOf(service);
          if (wanted.has(key) || !random.chance(0.4)) continue;
          // One that is still being deleted keeps its name.
          const created = await lab.create(service).catch(() => undefined);
          if (created !== undefined) wanted.set(key, created);
        }
        for (const [key, service] of wanted) {
          if (!random.chance(0.2) || !(await hasFinalizer(lab, service))) continue;
          await deleteService(lab.admin, service.metadata?.name ?? "");
          wanted.delete(key);
        }
        await Bun.sleep(random.between(0, 300));
        await lab.stop();
        while (lab.simulator.underway() > 0) await Bun.sleep(1);
        lab.simulator.clearLog();
        await Bun.sleep(20);
        expect({ round, writes: lab.armWrites() }).toEqual({ round, writes: [] });
      }
      lab.simulator.clearFailures();
      await lab.start();
      const services = await lab.eventually("the wanted ones have an address", () => allServed(lab, wanted.size));
      expect(services.map(keyOf).toSorted()).toEqual([...wanted.keys()].toSorted());
      expect(azure.items("frontendIPConfigurations").size).toBe(wanted.size);
      await removeAll(lab, services);
      expect(azure.footprint()).toEqual(start);
    });
});
