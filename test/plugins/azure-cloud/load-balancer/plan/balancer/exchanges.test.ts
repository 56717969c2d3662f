import { expect, test } from "bun:test";

import type { LoadBalancer } from "@azure/arm-network";

import type { Observed, ServiceIntent } from "../../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import { plan } from "../../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import { applied } from "../../applied.ts";
import { intentOf, plannerConfigOf, type ServiceShape } from "../../fixtures.ts";
import { converge, publicIP, world } from "../../world.ts";

const config = plannerConfigOf();
const start = world({
  publicIPs: [
    ...["1", "2", "3", "4"].map((name) => publicIP(`ip-${name}`, `20.9.9.${name}`)),
    ...["5", "6"].map((name) => publicIP(`ip-${name}`, `2603::${name}`)),
  ],
});

type More = Pick<ServiceShape, "spec"> & Pick<Partial<ServiceIntent>, "failed">;

/** A Service with one of the public IPs. */
const having = (name: string, ip: string, more: More = {}): ServiceIntent =>
  intentOf({ name, annotations: { "azure-pip-name": `ip-${ip}` }, ...more });

const balancerOf = ({ loadBalancers: [one] }: Observed): LoadBalancer => one ?? {};

/** Numbers of the public IPs of frontends, by Service. */
const held = (observed: Observed): Readonly<Record<string, string | undefined>> =>
  Object.fromEntries(
    (balancerOf(observed).frontendIPConfigurations ?? []).map(({ name, publicIPAddress }) => [
      name?.slice(1),
      publicIPAddress?.id?.at(-1),
    ]),
  );

const failed = new Set([`${balancerOf(converge([having("a", "1")], start, config).observed).id}`.toLowerCase()]);

/** What the Services have after each write of the load balancer. */
function steps(intents: readonly ServiceIntent[], first: Observed): readonly ReturnType<typeof held>[] {
  const found: ReturnType<typeof held>[] = [];
  for (let observed = first; found.length < 9;) {
    const { stages, results } = plan(intents, observed, config);
    expect([...results.values()].flatMap(({ problem }) => problem?.messages ?? [])).toEqual([]);
    const writes = stages.flatMap((stage) => stage.writes).filter(({ kind }) => kind === "put-load-balancer");
    if (stages.length === 0) return found;
    // Each waits for these writes: without one, it would fail.
    for (const [key, { settled }] of results)
      if (!settled) expect(writes.flatMap(({ services }) => services)).toContain(key);
    observed = applied(observed, { stages, results, nodeEvents: new Map() });
    if (writes.length > 0) found.push(held(observed));
  }
  throw new Error("no end");
}

const three = converge([having("a", "1"), having("b", "2"), having("c", "3")], start, config).observed;

test("Services exchange their public IPs in one write, unless ARM has refused that", () => {
  expect(steps([having("a", "2"), having("b", "3"), having("c", "1")], three)).toEqual([{ a: "2", b: "3", c: "1" }]);
});

test.each([
  ["all of them", [{ failed }, { failed }, { failed }]],
  ["one of them, of which the process knows", [{ failed }, {}, {}]],
])(
  "no public IP goes to a Service in the write in which another one leaves it, once ARM has refused that to %s",
  (_, marks) => {
    const [a, b, c] = marks;
    expect(steps([having("a", "2", a), having("b", "3", b), having("c", "1", c)], three)).toEqual([
      { a: "1", b: "2" },
      { a: "1", b: "3" },
      { a: "2", b: "3" },
      { a: "2", b: "3", c: "1" },
    ]);
  },
);

test("a Service keeps its public IP until the Service that has the other one has left it, once ARM has refused to move both", () => {
  const intents = [having("a", "4"), having("b", "1", { failed }), having("c", "3")];
  const { results } = plan(intents, three, config);
  expect(["a", "b", "c"].map((name) => results.get(`default/${name}`)?.settled)).toEqual([true, false, true]);
  expect(steps(intents, three)).toEqual([
    { a: "4", b: "2", c: "3" },
    { a: "4", b: "1", c: "3" },
  ]);
});

test("IPv6 addresses are exchanged one after the other once ARM has refused that in one write", () => {
  const spec = { ipFamilies: ["IPv6"] };
  const before = converge([having("a", "5", { spec }), having("b", "6", { spec })], start, config).observed;
  expect(steps([having("a", "6", { spec, failed }), having("b", "5", { spec, failed })], before)).toEqual([
    { a: "5" },
    { a: "6" },
    { a: "6", b: "5" },
  ]);
});

test("a Service shares the public IP of one that stays although ARM has refused it another one", () => {
  const udp = { spec: { ports: [{ protocol: "UDP", port: 53, nodePort: 30_053 }] } };
  const intents = [having("a", "1"), having("b", "1", { failed, ...udp }), having("c", "3", { failed })];
  expect(steps(intents, three)).toEqual([{ a: "1", c: "3" }]);
});

test("a Service that shares the frontend of one that wants another public IP keeps its rules there, whatever write has failed", () => {
  const udp = (...ports: readonly number[]): More => ({
    spec: { ports: ports.map((port) => ({ name: `p${port}`, protocol: "UDP", port, nodePort: 30_000 + port })) },
  });
  const { observed } = converge([having("a", "1"), having("b", "1", udp(53, 55))], start, config);
  const planWith = (more: More) =>
    plan([having("a", "4", more), having("b", "1", { ...udp(54, 55), ...more })], observed, config);
  expect(planWith({ failed })).toEqual(planWith({}));
  expect(planWith({ failed }).results.get("default/a")?.problem?.code).toBe("FrontendInUse");
});
