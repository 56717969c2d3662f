import { describe, expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import type { Write } from "../../../../../plugins/azure-cloud/load-balancer/model/plan-model.ts";
import { InFlight } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/in-flight.ts";
import { world } from "../world.ts";

const network = "/subscriptions/sub0/resourceGroups/rg0/providers/Microsoft.Network";
const target = { resourceGroup: "rg0", name: "x", body: {} };
const publicIP = (name: string): Write => ({
  ...target,
  kind: "put-public-ip",
  id: `${network}/publicIPAddresses/${name}`,
  services: [name],
});
const balancer = (...services: readonly string[]): Write => ({
  ...target,
  kind: "put-load-balancer",
  id: `${network}/loadBalancers/kubernetes`,
  services,
});
const members = (family: "IPv4" | "IPv6", loadBalancer = "kubernetes"): Write => ({
  ...target,
  kind: "update-members",
  id: `${network}/loadBalancers/${loadBalancer}/backendAddressPools/${family}`,
  services: [family],
  loadBalancer,
  family,
  join: [],
  leave: [],
});
const group = (...services: readonly string[]): Write => ({
  ...target,
  kind: "put-security-group",
  id: `${network}/networkSecurityGroups/nsg0`,
  services,
});

function fixture() {
  const clock = manualClock();
  const inFlight = new InFlight(clock);
  const start = (name: string) => inFlight.start(publicIP(name), world());
  const isHeldBack = (...services: readonly string[]): boolean => inFlight.isHeldBack(balancer(...services));
  return { clock, inFlight, start, isHeldBack };
}

describe("a load balancer whose Services get public IPs at about the same time", () => {
  test("waits for the rest once one is back, for a quarter of the time that this took", async () => {
    const { clock, inFlight, start, isHeldBack } = fixture();
    const [a] = [start("a"), start("b")];
    expect([isHeldBack("a"), inFlight.graceMs()]).toEqual([false, 0]);
    await clock.advance(4_000);
    inFlight.end(a);
    expect([isHeldBack("a"), isHeldBack("c"), inFlight.graceMs()]).toEqual([true, false, 1_000]);
    expect(inFlight.isHeldBack(group("c", "a"))).toBe(true);
    expect(inFlight.isHeldBack(publicIP("a"))).toBe(false);
    await clock.advance(999);
    expect(isHeldBack("a")).toBe(true);
    await clock.advance(1);
    expect([isHeldBack("a"), inFlight.graceMs()]).toEqual([false, 0]);
  });

  test("waits 250 ms after each that is back, and no longer than a second in all", async () => {
    const { clock, inFlight, start } = fixture();
    const flights = ["a", "b", "c", "d", "e", "f"].map(start);
    await clock.advance(20);
    const waits: number[] = [];
    for (const flight of flights.slice(0, 5)) {
      inFlight.end(flight);
      waits.push(inFlight.graceMs());
      await clock.advance(240);
    }
    expect(waits).toEqual([250, 250, 250, 250, 40]);
    expect(inFlight.graceMs()).toBe(0);
  });

  test("waits for as long as the first one took in all, where that is more than a second", async () => {
    const { clock, inFlight, start } = fixture();
    const [a, b] = [start("a"), start("b"), start("c")];
    await clock.advance(8_000);
    inFlight.end(a);
    await clock.advance(1_900);
    inFlight.end(b);
    expect(inFlight.graceMs()).toBe(2_000);
    await clock.advance(2_000);
    expect(inFlight.graceMs()).toBe(0);
  });

  test("does not wait when all are back", async () => {
    const { clock, inFlight, start, isHeldBack } = fixture();
    const flights = [start("a"), start("b")];
    await clock.advance(20);
    for (const flight of flights) inFlight.end(flight);
    expect([isHeldBack("a"), inFlight.graceMs()]).toEqual([false, 0]);
  });

  test("waits for one that began while another one was awaited, and not for one that began later", async () => {
    const { clock, inFlight, start, isHeldBack } = fixture();
    const [a] = [start("a")];
    await clock.advance(249);
    start("b");
    await clock.advance(1);
    start("c");
    inFlight.end(a);
    expect([isHeldBack("a"), isHeldBack("b"), isHeldBack("c")]).toEqual([true, true, false]);
  });

  test("measures a public IP by its own time, not by that of its wave", async () => {
    const { clock, inFlight, start } = fixture();
    start("a");
    await clock.advance(240);
    const b = start("b");
    await clock.advance(2_000);
    inFlight.end(b);
    expect(inFlight.graceMs()).toBe(500);
  });
});

describe("a resource with a conflict", () => {
  const write = balancer("a");
  const isFree = (inFlight: InFlight): boolean => inFlight.isFree(write, world(), []);

  test("is written again at once, and later after growing pauses, until it is one conflict too many", async () => {
    const { clock, inFlight } = fixture();
    expect(inFlight.conflicted(write.id.toUpperCase())).toBe(true);
    expect([isFree(inFlight), inFlight.pauseMs()]).toEqual([true, Number.POSITIVE_INFINITY]);
    for (const [least, most] of [
      [100, 300],
      [200, 600],
      [400, 1200],
    ] as const) {
      expect(inFlight.conflicted(write.id)).toBe(true);
      expect(isFree(inFlight)).toBe(false);
      expect(inFlight.pauseMs()).toBeWithin(least, most);
      await clock.advance(inFlight.pauseMs());
      expect(isFree(inFlight)).toBe(true);
    }
    expect(inFlight.conflicted(write.id)).toBe(false);
    expect(isFree(inFlight)).toBe(true);
    expect(inFlight.conflicted(write.id)).toBe(true);
  });

  test("has no conflicts any more once it is written", () => {
    const { inFlight } = fixture();
    for (let round = 0; round < 3; round++) {
      for (let count = 0; count < 4; count++) expect(inFlight.conflicted(write.id)).toBe(true);
      inFlight.written(write.id.toUpperCase());
      expect(isFree(inFlight)).toBe(true);
    }
  });

  test("pauses no other one, and the shortest pause is the next", () => {
    const { inFlight } = fixture();
    for (let count = 0; count < 4; count++) inFlight.conflicted(write.id);
    inFlight.conflicted(publicIP("a").id);
    expect(inFlight.isFree(publicIP("a"), world(), [])).toBe(true);
    inFlight.conflicted(publicIP("a").id);
    expect(inFlight.pauseMs()).toBeWithin(100, 300);
  });
});

test("what was in flight when an observation began is not free, although it is back", () => {
  const { inFlight } = fixture();
  const flight = inFlight.start(balancer("a"), world());
  const held = inFlight.current();
  inFlight.end(flight);
  expect(inFlight.isFree(balancer("b"), world(), held)).toBe(false);
  expect(inFlight.isFree(balancer("b"), world(), [])).toBe(true);
  expect([held.length, inFlight.size]).toEqual([1, 0]);
});

describe("members of the pools of one load balancer", () => {
  const [ipv4, ipv6] = [members("IPv4"), members("IPv6")];

  test("are written together if both writes start together, and one after the other otherwise", () => {
    const { inFlight } = fixture();
    const flight = inFlight.start(ipv4, world());
    const started = new Map([[ipv4, { flight }]]);
    expect(inFlight.isFree(ipv6, world(), [], started)).toBe(true);
    expect(inFlight.isFree(ipv6, world(), [])).toBe(false);
    started.set(ipv6, { flight: inFlight.start(ipv6, world()) });
    inFlight.end(flight);
    expect(inFlight.isFree(ipv4, world(), [])).toBe(false);
    expect(inFlight.isFree(balancer("a"), world(), [])).toBe(false);
  });

  test("are not written beside a write of another kind that started together with others", () => {
    const { inFlight } = fixture();
    const put = balancer("a");
    const started = new Map([[put, { flight: inFlight.start(put, world()) }]]);
    expect(inFlight.isFree(ipv4, world(), [], started)).toBe(false);
    expect(inFlight.isFree(members("IPv4", "other"), world(), [], started)).toBe(true);
  });

  test("keep the load balancer from being written with them, although it starts together with them", () => {
    const { inFlight } = fixture();
    const started = new Map([[ipv4, { flight: inFlight.start(ipv4, world()) }]]);
    expect(inFlight.isFree(balancer("a"), world(), [], started)).toBe(false);
  });

  test("are not written together while an earlier write of them is in flight, or was when they were read", () => {
    const { inFlight } = fixture();
    const earlier = inFlight.start(members("IPv4"), world());
    const held = inFlight.current();
    const started = new Map([[ipv4, { flight: inFlight.start(ipv4, world()) }]]);
    expect(inFlight.isFree(ipv6, world(), [], started)).toBe(false);
    inFlight.end(earlier);
    expect(inFlight.isFree(ipv6, world(), [], started)).toBe(true);
    expect(inFlight.isFree(ipv6, world(), held, started)).toBe(false);
  });
});
