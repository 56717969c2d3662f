import { describe, expect, test } from "bun:test";

import { keyOf } from "cloud-controller-host/sdk";

import type { Observed, ServiceIntent } from "../../../../../plugins/azure-cloud/load-balancer/model/model.ts";
import type { Plan, Write } from "../../../../../plugins/azure-cloud/load-balancer/model/plan-model.ts";
import { plan } from "../../../../../plugins/azure-cloud/load-balancer/plan/plan.ts";
import {
  createdPools,
  planRound,
  type Round,
  type RoundOptions,
  withoutAwaited,
  withShared,
} from "../../../../../plugins/azure-cloud/load-balancer/reconcile/rounds.ts";
import { applied } from "../applied.ts";
import { intentOf, plannerConfigOf } from "../fixtures.ts";
import { converge, nodesNamed, publicIP, world } from "../world.ts";

const config = plannerConfigOf();
const inside = { "azure-load-balancer-internal": "true" };
const nodes = nodesNamed("node-0");
const a = intentOf({ name: "a", nodes });
const b = intentOf({ name: "b", nodes });
const c = intentOf({ name: "c", nodes });
const internal = intentOf({ name: "i", nodes, annotations: inside });

function planned(services: readonly ServiceIntent[], observed: Observed, options: Partial<RoundOptions> = {}): Round {
  const all = { config, isFree: () => true, isHeldBack: () => false, isDone: () => false, ...options };
  const round = planRound(services, observed, all);
  return { ...round, ready: withShared(round, planRound(round.rest, observed, all)) };
}
/** `kind: services` of each write. */
const texts = (writes: readonly Write[]): readonly string[] =>
  writes.map(({ kind, services }) => `${kind}: ${services.map((key) => key.split("/")[1]).join(" ")}`);
const names = (services: readonly ServiceIntent[]): readonly string[] =>
  services.map(({ service }) => service.metadata?.name ?? "");

/** The world in which the Services have public IPs and nothing else. */
function withPublicIPs(...services: readonly ServiceIntent[]): Observed {
  const start = world({ services: [...services, b, c, internal].map(({ service }) => service) });
  const { stages, ...rest }: Plan = plan(services, start, config);
  return applied(start, { ...rest, stages: stages.filter(({ name }) => name === "public-ips") });
}

describe("the writes that can start", () => {
  test("are those that need no other one of the same Service", () => {
    const observed = withPublicIPs(a);
    const { ready, writes } = planned([a], observed);
    expect(texts(ready)).toEqual(["put-load-balancer: a", "put-security-group: a"]);
    expect(texts(writes)).toEqual(["put-load-balancer: a", "update-members: a", "put-security-group: a"]);
    expect(texts(planned([a], world({ services: [a.service] })).ready)).toEqual(["put-public-ip: a"]);
  });

  test("leave out Services that need something earlier, which do not delay those that share a write with them", () => {
    const { ready, active, early } = planned([a, b, c], withPublicIPs(a));
    expect(texts(ready).toSorted()).toEqual([
      "put-load-balancer: a",
      "put-public-ip: b",
      "put-public-ip: c",
      "put-security-group: a",
    ]);
    expect(names(active)).toEqual(["a", "b", "c"]);
    expect([...early].toSorted()).toEqual(["default/b", "default/c"]);
  });

  test("give no port to a Service that is refused for it, while the one that gets it waits for others", () => {
    const shared = (name: string, port: number): ServiceIntent =>
      intentOf({
        name,
        nodes,
        annotations: { "azure-pip-name": "my-pip" },
        spec: { ports: [{ port, nodePort: 30080 }] },
      });
    const [serving, first, second] = [shared("a", 443), shared("b", 80), shared("c", 80)];
    const waiting = intentOf({ name: "d", nodes });
    const services = [serving, first, second, waiting].map(({ service }) => service);
    const start = world({ services, publicIPs: [publicIP("my-pip", "20.9.9.9")] });
    const { observed } = converge([serving], start, config);
    const round = planned([serving, first, second, waiting], { ...observed, poolMembers: new Map() });
    expect(round.planned.results.get("default/c")?.problem?.code).toBe("PortConflict");
    expect([...round.early].toSorted()).toEqual(["default/b", "default/d"]);
    expect(texts(round.ready).toSorted()).toEqual(["put-public-ip: d", "put-security-group: a b", "update-members: a"]);
  });

  test("leave out what is held back for more Services, but not what these need before", () => {
    const isHeldBack = ({ kind }: Write): boolean => kind === "put-load-balancer" || kind === "put-security-group";
    expect(texts(planned([a, b], withPublicIPs(a), { isHeldBack }).ready)).toEqual(["put-public-ip: b"]);
  });

  test("are not planned for a Service that waits for its load balancer, security rules included", () => {
    const isFree = ({ kind, name }: Write): boolean => kind !== "put-load-balancer" || name !== "kubernetes";
    const { ready, active } = planned([a, internal], withPublicIPs(a), { isFree });
    expect(texts(ready)).toEqual(["put-load-balancer: i"]);
    expect(names(active)).toEqual(["i"]);
  });

  test("include a load balancer whose security group is busy", () => {
    const isFree = ({ kind }: Write): boolean => kind !== "put-security-group";
    expect(texts(planned([a], withPublicIPs(a), { isFree }).ready)).toEqual(["put-load-balancer: a"]);
  });

  test("include security rules alone, where nothing else changes", () => {
    const { observed } = converge([a], world({ services: [a.service] }), config);
    const narrowed = intentOf({ name: "a", nodes, spec: { loadBalancerSourceRanges: ["203.0.113.0/24"] } });
    const isFree = ({ kind }: Write): boolean => kind === "put-security-group";
    expect(texts(planned([narrowed], observed, { isFree }).ready)).toEqual(["put-security-group: a"]);
  });

  test("do not contain what is done for each of its Services", () => {
    const { observed } = converge([a, b], world({ services: [a.service, b.service] }), config);
    const more = [a, b].map((one) => ({ ...one, nodes: nodesNamed("node-0", "node-1") }));
    const joined = { ...observed, poolMembers: new Map() };
    const isDone = (write: Write, key: string): boolean => write.kind === "update-members" && key === keyOf(a.service);
    expect(texts(planned(more, joined, { isDone }).writes)).toEqual(["update-members: a b"]);
    const isDoneForAll = ({ kind }: Write): boolean => kind === "update-members";
    expect(planned(more, joined, { isDone: isDoneForAll }).writes).toEqual([]);
  });
});

describe("a port on a shared address", () => {
  const sharing = (name: string, port: number): ServiceIntent =>
    intentOf({
      name,
      nodes,
      annotations: { "azure-pip-name": "my-pip" },
      spec: { ports: [{ port, nodePort: 30080 }] },
    });
  const [serving, older, younger] = [sharing("a", 443), sharing("b", 80), sharing("c", 80)];
  const services = [serving, older, younger, a].map(({ service }) => service);
  const { observed } = converge([serving], world({ services, publicIPs: [publicIP("my-pip", "20.9.9.9")] }), config);

  test("is not given to a Service while an older one that gets it has a write in flight", () => {
    const { active, writes } = planned([younger], observed, { others: [older] });
    expect([names(active), texts(writes)]).toEqual([[], []]);
  });

  test("is not given to a Service while an older one that gets it waits for a resource", () => {
    const isFree = ({ services: keys }: Write): boolean => !keys.includes("default/b");
    const { active, writes, planned: last } = planned([older, younger], observed, { isFree });
    expect([names(active), texts(writes), last.results.size]).toEqual([[], [], 0]);
  });

  test("is kept for a waiting Service without holding up one that asks for another port", () => {
    const other = sharing("d", 81);
    const { ready } = planned([younger, other], observed, { others: [older] });
    expect(texts(ready)).toEqual(["put-load-balancer: d", "put-security-group: d"]);
  });

  test("is given to a Service that is older than the one that waits", () => {
    expect(texts(planned([older], observed, { others: [younger] }).ready)).toContain("put-load-balancer: b");
  });

  test("is refused at once to a Service if another one has it, whichever Services wait", () => {
    const has = converge([older], observed, config).observed;
    const { planned: last } = planned([younger, sharing("d", 81)], has, { others: [older] });
    expect(last.results.get("default/c")?.problem?.code).toBe("PortConflict");
  });

  test("is looked for among Services that wait only if one of them or of those that are written asks for an address", () => {
    let plans = 0;
    const counted: Observed = {
      ...observed,
      get securityGroup() {
        plans += 1;
        return observed.securityGroup;
      },
    };
    const reads = (active: readonly ServiceIntent[], others: readonly ServiceIntent[]): number => {
      plans = 0;
      planRound(active, counted, { config, isFree: () => true, isHeldBack: () => false, isDone: () => false, others });
      return plans;
    };
    const alone = reads([internal], []);
    expect(reads([internal], [b, c])).toBe(alone);
    expect(reads([internal, serving], [b, c])).toBe(reads([internal, serving], []));
    expect(reads([serving], [older])).toBe(reads([serving], []));
    expect(reads([internal], [older])).toBeGreaterThan(alone);
    expect(reads([younger], [b])).toBeGreaterThan(reads([younger], []));
  });
});

describe("a security group that deployments share", () => {
  const marked = { metadata: { name: "x", annotations: { "cloud-controller-host/served-by": "x" } } };
  const shared = (observed: Observed): Observed => ({ ...observed, services: [...observed.services, marked] });
  const { observed } = converge([a, b], world({ services: [a.service, b.service] }), config);
  const isDone = ({ kind }: Write): boolean => kind === "put-security-group";
  const address = "20.0.0.1";
  const destinations = ({ securityGroup }: Observed): string => JSON.stringify(securityGroup?.securityRules);
  const carriedOut = (from: Observed, round: Round): Observed =>
    applied(from, {
      ...round.planned,
      stages: round.planned.stages.map((stage) => ({
        ...stage,
        writes: stage.writes.filter((write) => round.ready.includes(write)),
      })),
    });

  test("the ports of a deleted Service are closed first", () => {
    const deletion: ServiceIntent = { ...a, action: "delete" };
    expect(texts(planned([deletion], observed).ready)).toEqual(["put-load-balancer: a", "put-security-group: a"]);
    expect(texts(planned([deletion], shared(observed)).ready)).toEqual(["put-security-group: a"]);
    expect(texts(planned([deletion], shared(observed), { isDone }).ready)).toEqual(["put-load-balancer: a"]);
  });

  test("a Service that keeps its address opens another port beside the write of its load balancer", () => {
    const ports = [80, 443].map((port) => ({ name: `tcp-${port}`, port, nodePort: 30_000 + port }));
    const more = intentOf({ name: "a", nodes, spec: { ports } });
    const { ready } = planned([more], shared(observed));
    expect(texts(ready).toSorted()).toEqual(["put-load-balancer: a", "put-security-group: a"]);
  });

  test("a new Service opens its ports once its frontend tells its address", () => {
    const before = shared(withPublicIPs(c));
    const first = planned([c], before);
    expect(texts(first.writes)).toEqual(["put-load-balancer: c", "update-members: c"]);
    expect(first.planned.results.get("default/c")?.settled).toBe(false);
    const then = planned([c], carriedOut(before, first));
    expect(texts(then.ready).toSorted()).toEqual(["put-security-group: c", "update-members: c"]);
    expect(then.planned.results.get("default/c")?.settled).toBe(true);
  });

  test.each([
    ["to an address that Azure chooses", inside],
    ["to one that it asks for", { ...inside, "azure-load-balancer-ipv4": "10.240.0.99" }],
    ["to another public IP", { "azure-pip-name": "my-pip" }],
  ])("what a Service leaves before its status showed it is closed before its frontend goes: %s", (_to, annotations) => {
    const from = { ...observed, publicIPs: [...observed.publicIPs, publicIP("my-pip", "20.9.9.9")] };
    const moved = intentOf({ name: "a", nodes, annotations });
    expect(destinations(from)).toContain(`"${address}"`);
    expect(texts(planned([moved], from).ready)).toContain("put-load-balancer: a");
    const first = planned([moved], shared(from));
    expect(texts(first.ready)).toEqual(["put-security-group: a"]);
    const closed = carriedOut(shared(from), first);
    expect(destinations(closed)).not.toContain(`"${address}"`);
    expect(destinations(closed)).toContain('"20.0.0.2"');
    expect(texts(planned([moved], closed).ready)).toContain("put-load-balancer: a");
    const { observed: end } = converge([moved], closed, config);
    expect(destinations(end)).not.toContain(`"${address}"`);
  });

  test("a Service without a rule on the frontend of another one opens its ports, although nothing tells its address", () => {
    const annotations = { "azure-pip-name": "my-pip" };
    const owner = intentOf({ name: "o", nodes, annotations });
    const none = { ...annotations, port_443_no_lb_rule: "true" };
    const guest = intentOf({ name: "g", nodes, annotations: none, spec: { ports: [{ port: 443, nodePort: 30443 }] } });
    const services = [owner.service, guest.service];
    const { observed: alone } = converge(
      [owner],
      world({ services, publicIPs: [publicIP("my-pip", "20.9.9.9")] }),
      config,
    );
    const round = planned([guest], shared(alone));
    expect(texts(round.ready)).toContain("put-security-group: g");
    expect(round.planned.results.get("default/g")?.settled).toBe(true);
  });

  test("an address that a Service shows stays open until its load balancer is written, and is closed then", () => {
    const shown = intentOf({ name: "a", nodes, annotations: inside, ingress: [address] });
    const from = { ...shared(observed), services: [shown.service, b.service, marked] };
    const first = planned([shown], from);
    expect(texts(first.ready)).toContain("put-load-balancer: a");
    expect(texts(first.ready)).not.toContain("put-security-group: a");
    const { observed: end } = converge([shown], carriedOut(from, first), config);
    expect(destinations(end)).not.toContain(`"${address}"`);
  });
});

describe("a load balancer that its last Service leaves", () => {
  const { observed } = converge([a], world({ services: [a.service, b.service] }), config);
  const deletion: ServiceIntent = { ...a, action: "delete" };
  const round = planned([deletion], observed);
  const kinds = (writes: readonly Write[]): readonly string[] => writes.map(({ kind }) => kind);

  test("is released first", () => {
    expect(kinds(round.ready)).toEqual(["release-pools", "put-security-group"]);
  });

  test("is not released while another Service has a write in flight and needs it", () => {
    const options = { active: round.active, observed, config };
    expect(kinds(withoutAwaited(round.ready, [b], options))).toEqual(["put-security-group"]);
    expect(kinds(withoutAwaited(round.ready, [internal], options))).toEqual(["release-pools", "put-security-group"]);
    expect(withoutAwaited(round.ready, [deletion], options)).toBe(round.ready);
  });

  test("is not deleted then either, where no member has to leave before", () => {
    const byNodeIP = plannerConfigOf({ loadBalancerBackendPoolConfigurationType: "nodeIP" });
    const next = intentOf({ name: "j", nodes, annotations: inside });
    const start = world({ services: [internal.service, next.service] });
    const { observed: seen } = converge([internal], start, byNodeIP);
    const options = { config: byNodeIP, isFree: () => true, isHeldBack: () => false, isDone: () => false };
    const { ready, active } = planRound([{ ...internal, action: "delete" }], seen, options);
    expect(kinds(ready)).toEqual(["delete-load-balancer"]);
    const about = { active, observed: seen, config: byNodeIP };
    expect(kinds(withoutAwaited(ready, [next], about))).toEqual([]);
    expect(kinds(withoutAwaited(ready, [b], about))).toEqual(["delete-load-balancer"]);
  });

  test("is not released for a Service that needs its public IP first", () => {
    expect(kinds(planned([deletion, b], observed).ready)).not.toContain("release-pools");
  });
});

test("the pools that a write creates are those that its load balancer does not have yet", () => {
  const observed = withPublicIPs(a);
  const [write] = planned([a], observed).ready;
  if (write === undefined) throw new Error("no write");
  const pool = `${write.id}/backendaddresspools/kubernetes`.toLowerCase();
  expect(createdPools(write, observed)).toEqual([pool]);
  const present = { id: write.id.toUpperCase(), backendAddressPools: [{ name: "KUBERNETES" }] };
  expect(createdPools(write, { ...observed, loadBalancers: [present] })).toEqual([]);
  const other = { id: `${write.id}-internal`, backendAddressPools: [{ name: "kubernetes" }] };
  expect(createdPools(write, { ...observed, loadBalancers: [other] })).toEqual([pool]);
  const inCapitals = write.kind === "put-load-balancer" && {
    ...write,
    body: { ...write.body, backendAddressPools: [{ name: "KUBERNETES" }] },
  };
  if (inCapitals === false) throw new Error("no load balancer");
  const known = { id: write.id, backendAddressPools: [{ name: "kubernetes" }] };
  expect(createdPools(inCapitals, { ...observed, loadBalancers: [known] })).toEqual([]);
  expect(planned([b], observed).ready.flatMap((one) => createdPools(one, observed))).toEqual([]);
});
