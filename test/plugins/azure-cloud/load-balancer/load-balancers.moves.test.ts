import { describe, expect, test } from "bun:test";

import { defaultLoadBalancerName, keyOf, type Service } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { type JsonObject, objectAt, objectsAt, stringAt } from "../../../../plugins/azure-cloud/json.ts";
import type { RequestMatcher } from "../../../../plugins/azure-cloud/simulator/faults.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { azureState, expectConverged } from "./azure-state.ts";
import { type Cluster, fast, type Generation, openCluster, serviceOf } from "./cluster.ts";

const waitMs = 60_000;
const external = serviceOf("web");
const internalAnnotations = { annotations: { "azure-load-balancer-internal": "true" } };
const internal = serviceOf("web", internalAnnotations);
const base = defaultLoadBalancerName(external);

/** A kind of Service, with the load balancer that it is on. */
interface Kind {
  readonly service: Service;
  readonly balancer: string;
  /** Keeps the load balancer when the Service has left it. */
  readonly neighbor: Service;
}
const outside: Kind = { service: external, balancer: "kubernetes", neighbor: serviceOf("other") };
const inside: Kind = {
  service: internal,
  balancer: "kubernetes-internal",
  neighbor: serviceOf("other", internalAnnotations),
};
const directions = [
  ["an external Service becomes internal and external again", outside, inside],
  ["an internal Service becomes external and internal again", inside, outside],
] as const;

const pathOf = ({ balancer }: Kind): string => `/providers/Microsoft.Network/loadBalancers/${balancer}`;
const addressesOf = ({ services }: Cluster): readonly string[] =>
  services.get(keyOf(external))?.status?.loadBalancer?.ingress?.flatMap(({ ip }) => ip ?? []) ?? [];

/** Another writer edits the rules of a load balancer, and adds a tag. */
function edit({ world }: Cluster, kind: Kind, change: (rules: readonly JsonObject[]) => readonly JsonObject[]): void {
  const { simulator } = world;
  const { properties, ...rest } = simulator.get(pathOf(kind)) ?? {};
  const rules = change(objectsAt(properties, "loadBalancingRules"));
  const tags = { ...objectAt(rest, "tags"), edited: String(rules.length) };
  simulator.put(pathOf(kind), { ...rest, tags, properties: { ...properties, loadBalancingRules: rules } });
}

/** Another writer adds a rule to the frontend of the Service. */
function addRule(cluster: Cluster, kind: Kind, port: number): void {
  const { id = "", properties } = cluster.world.simulator.get(pathOf(kind)) ?? {};
  const [pool] = objectsAt(properties, "backendAddressPools");
  const rule = {
    protocol: "Tcp",
    frontendPort: port,
    backendPort: port,
    frontendIPConfiguration: { id: `${id}/frontendIPConfigurations/${base}` },
    backendAddressPools: [{ id: stringAt(pool, "id") }],
  };
  edit(cluster, kind, (rules) => [...rules, { name: `theirs-${port}`, properties: rule }]);
}

const removeRule = (cluster: Cluster, kind: Kind, port: number): void =>
  edit(cluster, kind, (rules) => rules.filter((rule) => stringAt(rule, "name") !== `theirs-${port}`));

/** When the other writer edits the load balancer that `work` writes. */
interface Window {
  /** Reads are not those of the last sync. */
  readonly isRead?: boolean;
  readonly edited: (cluster: Cluster, kind: Kind, change: () => void, work: () => Promise<unknown>) => Promise<void>;
}

const holding =
  (matcher: (kind: Kind) => RequestMatcher, stage?: "response"): Window["edited"] =>
  async ({ world }, kind, change, work) => {
    const hold = world.simulator.hold(matcher(kind), stage);
    const done = work();
    await eventually("the request is held", () => hold.waiting() > 0, waitMs);
    change();
    hold.release();
    await done;
  };

const list: RequestMatcher = { method: "GET", path: /\/loadBalancers$/u };
const put = (kind: Kind): RequestMatcher => ({ method: "PUT", path: new RegExp(`${pathOf(kind)}$`, "u") });

const windows: Readonly<Record<string, Window>> = {
  "after the read that a sync rests on": {
    edited: async (_cluster, _kind, change, work) => {
      change();
      await work();
    },
  },
  "between the read and the plan": { isRead: true, edited: holding(() => list, "response") },
  "between the plan and the write": { edited: holding(put) },
};

const ensured = (cluster: Cluster, generation: Generation, service: Service): Promise<unknown> =>
  eventually(
    "the Service is ensured",
    async () => (await errorOf(cluster.ensure(generation, service))) === undefined,
    waitMs,
  );

describe.each(directions)("%s", (title, from, to) => {
  for (const [when, { isRead = false, edited }] of Object.entries(windows))
    test(`${title}, and another writer adds a rule to its frontend ${when}`, async () => {
      await using cluster = await openCluster(1);
      const { simulator } = cluster.world;
      const generation = await cluster.start({ disableAPICallCache: isRead }, fast(100));
      await cluster.ensure(generation, from.service);
      await cluster.ensure(generation, from.neighbor);
      const before = addressesOf(cluster);

      const leave = () => ensured(cluster, generation, to.service);
      await edited(cluster, from, () => addRule(cluster, from, 8443), leave);
      const moved = azureState(simulator);
      expect(addressesOf(cluster)).not.toEqual(before);
      expect(moved.rules).not.toContain(`${from.balancer}/${base}-TCP-80`);
      expect(moved.rules).toContain(`${from.balancer}/theirs-8443`);
      for (const { balancer } of [from, to]) expect(moved.frontends).toContain(`${balancer}/${base}`);
      expect(generation.events).toContain("web DeletingFrontendIPConfiguration");

      // The port is taken by then: nothing is written that ARM would refuse.
      addRule(cluster, from, 80);
      simulator.clearLog();
      expect(await errorOf(cluster.ensure(generation, from.service))).toMatchObject({ code: "PortConflict" });
      expect(simulator.log.map(({ status }) => status)).not.toContain(400);

      removeRule(cluster, from, 80);
      const comeBack = () => ensured(cluster, generation, from.service);
      await edited(cluster, from, () => addRule(cluster, from, 8444), comeBack);
      expect(addressesOf(cluster)).toEqual(before);
      for (const name of ["theirs-8443", "theirs-8444"])
        expect(azureState(simulator).rules).toContain(`${from.balancer}/${name}`);
      for (const port of [8443, 8444]) removeRule(cluster, from, port);
      expectConverged(cluster);
    });

  test(`${title} while its unchanged version is being read and another writer adds a rule: each sync has the result of its own version`, async () => {
    await using cluster = await openCluster(1);
    const { simulator } = cluster.world;
    const generation = await cluster.start({ disableAPICallCache: true }, fast(100));
    await cluster.ensure(generation, from.service);
    for (const [present, next] of [
      [from, to],
      [to, from],
    ] as const) {
      const hold = simulator.hold(list, "response");
      const unchanged = cluster.ensure(generation, present.service);
      await eventually("it is being read", () => hold.waiting() > 0, waitMs);
      const changed = cluster.ensure(generation, next.service);
      addRule(cluster, present, 8443);
      hold.release();
      await Promise.all([unchanged, changed]);
      const isPrivate = addressesOf(cluster).map((address) => address.startsWith("10."));
      expect(isPrivate).toEqual([next === inside]);
      expect(azureState(simulator).rules).toContain(`${next.balancer}/${base}-TCP-80`);
      expect(azureState(simulator).rules).toContain(`${present.balancer}/theirs-8443`);
      removeRule(cluster, present, 8443);
      await ensured(cluster, generation, next.service);
    }
    expectConverged(cluster);
  });

  test(`${title} within one tick: nothing is written`, async () => {
    await using cluster = await openCluster(1);
    const generation = await cluster.start();
    await cluster.ensure(generation, from.service);
    const before = addressesOf(cluster);
    cluster.world.simulator.clearLog();
    await Promise.all([to, from].map(({ service }) => errorOf(cluster.ensure(generation, service))));
    expect(addressesOf(cluster)).toEqual(before);
    expect(cluster.writes()).toEqual([]);
    expectConverged(cluster);
  });
});
