import { describe, expect, test } from "bun:test";

import { kinds, messageOf, type Service } from "cloud-controller-host/sdk";

import { OpenedRecords } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/opened-records.ts";
import plugin from "../../../../../plugins/service-lb/plugin.ts";
import { TestCluster } from "../../../../kit/harness.ts";
import { serviceOf } from "../cluster.ts";
import { plannerConfigOf, recordOf } from "../fixtures.ts";
import { world } from "../world.ts";

const observed = world({});
const name = { namespace: "default", name: "web" };
const patches = { verb: "patch", resource: "services" } as const;

/** A Service that names these additional addresses, with the record that an earlier process has left. */
function naming(addresses: string, record?: string): Service {
  const service = serviceOf("web", {
    annotations: addresses === "" ? {} : { "azure-additional-public-ips": addresses },
  });
  return record === undefined ? service : { ...service, status: { conditions: [recordOf(record)] } };
}

interface Lab extends AsyncDisposable {
  readonly cluster: TestCluster;
  readonly records: OpenedRecords;
  /** Creates the Service, as the informer shows it. */
  create(service: Service): Service;
  /** The record as the API server has it; undefined without one. */
  record(): string | undefined;
  /** Other writers give the Service the labels, annotations and status of this one. */
  change(to: Service): Service;
}

async function open({ isShared = true, isPlanning = false } = {}): Promise<Lab> {
  const cluster = await TestCluster.start();
  const { context } = cluster.generation(plugin);
  const ignore = (): void => undefined;
  const planning = { record: ignore, unknown: ignore, hold: ignore, inFlight: ignore };
  const config = { ...plannerConfigOf(), ...(isShared && { shardSuffix: "" }) };
  return {
    cluster,
    records: new OpenedRecords({ context: { ...context, ...(isPlanning && { planning }) }, config }),
    create: (service) => cluster.api.create(kinds.Service, service),
    record() {
      const conditions = cluster.api.get(kinds.Service, name)?.status?.conditions;
      return conditions?.find(({ type }) => type === "AdditionalAddressesOpen")?.message;
    },
    change({ metadata: { annotations = {}, labels = {} } = {}, status = {} }) {
      const metadataOf = (service: Service) => ({ ...service.metadata, annotations, labels });
      cluster.api.update(kinds.Service, name, (service) => ({ ...service, metadata: metadataOf(service) }));
      return cluster.api.update(kinds.Service, name, (service) => ({ ...service, status }), "status");
    },
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
  };
}

describe("the record of opened addresses, before security rules are written", () => {
  test("gets the additional addresses that it names, beside those that may still be open", async () => {
    await using lab = await open();
    const web = lab.create(naming("203.0.113.2", "203.0.113.1"));
    expect(await lab.records.widen([web], observed)).toEqual(new Map());
    expect(lab.record()).toBe("203.0.113.1, 203.0.113.2");
    const [request] = lab.cluster.sent({ method: "PATCH" });
    expect(request?.path).toEndWith("/services/web/status");
    expect(request?.body).toMatchObject({ metadata: { resourceVersion: web.metadata?.resourceVersion } });
  });

  test.each([
    ["names none", naming("")],
    ["has them in its record", naming("203.0.113.1", "203.0.113.1")],
  ])("is not written if the Service %s", async (_, service) => {
    await using lab = await open();
    await lab.records.widen([lab.create(service)], observed);
    expect(lab.cluster.sent({ method: "PATCH" })).toEqual([]);
  });

  test.each([
    ["of a deployment alone", { isShared: false }],
    ["in a plan", { isPlanning: true }],
  ])("is not written %s", async (_, options) => {
    await using lab = await open(options);
    await lab.records.widen([lab.create(naming("203.0.113.1"))], observed);
    expect(lab.cluster.sent({ method: "PATCH" })).toEqual([]);
  });

  test("is written once, although the informer does not show that yet", async () => {
    await using lab = await open();
    const web = lab.create(naming("203.0.113.1"));
    await lab.records.widen([web], observed);
    await lab.records.widen([web], observed);
    expect(lab.cluster.sent({ method: "PATCH" })).toHaveLength(1);
  });

  test("is remembered for a bounded number of Services", async () => {
    await using lab = await open();
    const annotations = { "azure-additional-public-ips": "203.0.113.1" };
    const spec = { allocateLoadBalancerNodePorts: false, ports: [{ protocol: "TCP", port: 80 }] };
    const created = (at: number): Service => lab.create(serviceOf(`s-${at}`, { annotations, spec }));
    const [first, others] = [created(0), Array.from({ length: 1_000 }, (_, at) => created(at + 1))];
    for (const services of [[first], others]) await lab.records.widen(services, observed);
    await lab.records.widen(others, observed);
    expect(lab.cluster.sent()).toHaveLength(1_001);
    await lab.records.widen([first], observed);
    expect(lab.cluster.sent().length).toBeGreaterThan(1_001);
  });

  test("is written again if another writer has removed it", async () => {
    await using lab = await open();
    await lab.records.widen([lab.create(naming("203.0.113.1"))], observed);
    const replaced = lab.change(naming("203.0.113.1"));
    await lab.records.widen([replaced], observed);
    expect(lab.record()).toBe("203.0.113.1");
  });

  test("is written on the newest version of the Service", async () => {
    await using lab = await open();
    const web = lab.create(naming("203.0.113.2"));
    lab.change(naming("203.0.113.2", "203.0.113.1"));
    expect(await lab.records.widen([web], observed)).toEqual(new Map());
    expect(lab.record()).toBe("203.0.113.1, 203.0.113.2");
  });
});

describe("the record of opened addresses, once the security rules of its Service are right", () => {
  test.each([
    ["keeps what it names", "203.0.113.2", "203.0.113.2", 1],
    ["is removed if it names none", "", undefined, 1],
    ["is not written if it is right", "203.0.113.1,203.0.113.2", "203.0.113.1, 203.0.113.2", 0],
  ])("%s", async (_, named, expected, requests) => {
    await using lab = await open();
    const web = lab.create(naming(named, "203.0.113.1, 203.0.113.2"));
    expect(await lab.records.settle([web], observed)).toEqual(new Map());
    expect(lab.record()).toBe(expected);
    expect(lab.cluster.sent({ method: "PATCH" })).toHaveLength(requests);
  });

  test("is written if the Service has none yet: no other deployment was there when its rules were written", async () => {
    await using lab = await open();
    await lab.records.settle([lab.create(naming("203.0.113.1"))], observed);
    expect(lab.record()).toBe("203.0.113.1");
  });

  test("is removed where no other deployment is left", async () => {
    await using lab = await open({ isShared: false });
    await lab.records.settle([lab.create(naming("203.0.113.1", "203.0.113.1"))], observed);
    expect(lab.record()).toBeUndefined();
  });

  test("stays if the Service has another wish by now", async () => {
    await using lab = await open();
    const web = lab.create(naming("", "203.0.113.1"));
    lab.change(naming("203.0.113.2", "203.0.113.1, 203.0.113.2"));
    expect(await lab.records.settle([web], observed)).toEqual(new Map());
    expect(lab.record()).toBe("203.0.113.1, 203.0.113.2");
  });

  test("loses what was closed in spite of changes that are no wish", async () => {
    await using lab = await open();
    const web = lab.create(naming("", "203.0.113.1"));
    const { metadata, ...rest } = naming("", "203.0.113.1");
    lab.change({ ...rest, metadata: { ...metadata, labels: { team: "a" } } });
    expect(await lab.records.settle([web], observed)).toEqual(new Map());
    expect(lab.record()).toBeUndefined();
  });
});

describe("a record of opened addresses that cannot be written", () => {
  test("fails its Service, and no other one, with what the API server says", async () => {
    await using lab = await open();
    const web = lab.create(naming("203.0.113.1"));
    const annotations = { "azure-additional-public-ips": "203.0.113.1" };
    const ports = [{ protocol: "TCP", port: 80, nodePort: 31_000 }];
    const other = lab.create(serviceOf("other", { annotations, spec: { ports } }));
    const effect = { status: 403, reason: "Forbidden", message: "services is forbidden" };
    lab.cluster.api.faults.add({ match: { ...patches, name: "web" }, effect });
    const failures = await lab.records.widen([web, other], observed);
    expect([...failures.keys()]).toEqual(["default/web"]);
    expect(messageOf(failures.get("default/web"))).toBe(
      "failed to record the opened addresses of Service: services is forbidden",
    );
    expect(lab.record()).toBeUndefined();
  });

  test.each<readonly [string, (lab: Lab) => void]>([
    ["is gone", (lab) => lab.cluster.api.delete(kinds.Service, name)],
    [
      "was created again under its name",
      (lab) => {
        lab.cluster.api.delete(kinds.Service, name);
        lab.create(serviceOf("web", { incarnation: 1 }));
      },
    ],
  ])("supersedes the plan if its Service %s", async (_, replace) => {
    await using lab = await open();
    const web = lab.create(naming("203.0.113.1"));
    replace(lab);
    const failures = await lab.records.widen([web], observed);
    expect(failures.get("default/web")).toMatchObject({ code: "Superseded" });
    expect(lab.record()).toBeUndefined();
  });
});
