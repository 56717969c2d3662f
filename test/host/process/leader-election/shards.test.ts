import { expect, test } from "bun:test";

import type { Lease } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import {
  announcedBy,
  announcementBy,
  announcementKey,
  type Served,
} from "../../../../host/process/leader-election/announcement.ts";
import { relationBetween, Shards } from "../../../../host/process/leader-election/shards.ts";

const serving = (changes: Partial<Served> = {}): Served => ({
  shard: "",
  services: true,
  loadBalancerClass: "",
  serviceSelector: "",
  ...changes,
});

function leaseOf(name: string, holder: string, announcement?: string, spec: Lease["spec"] = {}): Lease {
  return {
    metadata: {
      name,
      namespace: "kube-system",
      ...(announcement !== undefined && { annotations: { [announcementKey]: announcement } }),
    },
    spec: { holderIdentity: holder, leaseDurationSeconds: 15, renewTime: "2026-01-01T00:00:00.000000Z", ...spec },
  };
}

/** Without a holder: as a release writes it. */
const announcing = (name: string, holder: string, served: Partial<Served>): Lease =>
  leaseOf(name, holder, announcementBy(holder, serving(served)), holder === "" ? { leaseDurationSeconds: 1 } : {});

function shardsOf(served: Partial<Served>, lease = "ccm-a") {
  const clock = manualClock();
  const lines: string[] = [];
  const log = (level: string) => (message: string) => void lines.push(`${level} ${message}`);
  const logger = {
    info: log("info"),
    warn: log("warn"),
    error: log("error"),
    debug: () => undefined,
    with: () => logger,
  };
  const cluster: { leases: readonly Lease[]; fails: boolean } = { leases: [], fails: false };
  const list = async (): Promise<readonly never[]> => {
    if (cluster.fails) throw new Error("no answer");
    return JSON.parse(JSON.stringify(cluster.leases));
  };
  const shards = new Shards({
    client: { list },
    clock,
    log: logger,
    namespace: "kube-system",
    lease,
    mainLease: "ccm",
    served: serving(served),
    limitMs: 5_000,
  });
  return { shards, clock, lines, cluster };
}

test("what a Lease shows is its holder's alone, and garbage shows nothing", () => {
  const served = serving({ shard: "a", serviceSelector: "shard=a" });
  expect(announcedBy(leaseOf("ccm-a", "one", announcementBy("one", served)))).toEqual(served);
  expect(announcedBy(leaseOf("ccm-a", "", announcementBy("one", served)))).toEqual(served);
  expect(announcedBy(leaseOf("ccm-a", "two", announcementBy("one", served)))).toBeUndefined();
  const bad = [
    "",
    "{",
    "null",
    "[]",
    "7",
    "{}",
    announcementBy("one", { ...served, shard: "A b" }),
    announcementBy("one", { ...served, loadBalancerClass: "\u001B[31m" }),
    announcementBy("one", { ...served, serviceSelector: "a=b=c" }),
    JSON.stringify({ holder: "one", shard: "a", services: true, loadBalancerClass: "" }),
    JSON.stringify({ holder: "one", shard: 7, services: true, loadBalancerClass: "", serviceSelector: "" }),
    JSON.stringify({ holder: "one", shard: "a", loadBalancerClass: null, serviceSelector: "" }),
    JSON.stringify({ shard: "a", services: true, loadBalancerClass: "", serviceSelector: "" }),
  ];
  for (const text of bad) expect(announcedBy(leaseOf("ccm-a", "one", text))).toBeUndefined();
  expect(announcedBy(leaseOf("ccm-a", "one"))).toBeUndefined();
});

test("deployments have Services in common unless class or labels exclude them, or one serves none", () => {
  const relation = (one: Partial<Served>, other: Partial<Served>) => relationBetween(serving(one), serving(other));
  expect(relation({}, {})).toBe("overlaps");
  expect(relation({ serviceSelector: "shard=a" }, { serviceSelector: "shard=b" })).toBe("disjoint");
  expect(relation({ serviceSelector: "shard=a" }, {})).toBe("overlaps");
  expect(relation({ loadBalancerClass: "a" }, {})).toBe("disjoint");
  expect(relation({ loadBalancerClass: "a" }, { loadBalancerClass: "a", serviceSelector: "x" })).toBe("overlaps");
  expect(relation({ services: false }, {})).toBe("disjoint");
  expect(relation({}, { services: false })).toBe("disjoint");
});

test("does not lead beside a shard with Services in common, until that one's Lease is free or has not changed for its duration", async () => {
  const { shards, clock, lines, cluster } = shardsOf({ shard: "a", serviceSelector: "shard=a" });
  cluster.leases = [announcing("ccm-b", "two", { shard: "b", serviceSelector: "shard in (a,b)" })];
  const logged = ["error Not leading: another shard serves some of the same Services"];
  for (let attempt = 0; attempt < 2; attempt++) {
    expect(await shards.mayLead()).toBe(false);
    expect(lines).toEqual(logged);
  }
  expect(shards.known).toMatchObject([{ lease: "ccm-b", leader: "two", relation: "overlaps" }]);
  await clock.advance(14_000);
  cluster.leases = [
    leaseOf("ccm-b", "two", announcementBy("two", serving({ shard: "b", serviceSelector: "shard in (a,b)" })), {
      acquireTime: "2026-01-01T00:00:00.000000Z",
      renewTime: "2026-01-01T00:00:14.000000Z",
    }),
  ];
  expect(await shards.mayLead()).toBe(false);
  await clock.advance(15_000);
  expect(await shards.mayLead()).toBe(false);
  await clock.advance(1);
  expect(await shards.mayLead()).toBe(true);
  expect(shards.known).toMatchObject([{ lease: "ccm-b", leader: "", since: "", relation: "disjoint" }]);
  cluster.leases = [announcing("ccm-b", "", { shard: "b" })];
  expect(await shards.mayLead()).toBe(true);
});

test("does not lead while the Leases cannot be read", async () => {
  const { shards, lines, cluster } = shardsOf({ serviceSelector: "shard=a" });
  cluster.fails = true;
  expect(await shards.mayLead()).toBe(false);
  expect(lines).toEqual(["error Not leading: failed to read the Leases of other shards"]);
  await expect(shards.isAlive("ccm-b")).rejects.toThrow("no answer");
});

test("leads beside a main Lease that shows nothing, with one warning, and ignores other Leases without the annotation", async () => {
  const { shards, lines, cluster } = shardsOf({ shard: "a", serviceSelector: "shard=a" });
  cluster.leases = [
    leaseOf("ccm", "the Go provider"),
    leaseOf("kube-scheduler", "it"),
    leaseOf("ccm-c", "x", "garbage"),
  ];
  for (let attempt = 0; attempt < 2; attempt++) expect(await shards.mayLead()).toBe(true);
  expect(lines).toEqual(["warn Unable to determine whether another shard serves some of the same Services"]);
  expect(shards.known.map(({ lease, relation }) => [lease, relation])).toEqual([
    ["ccm", "undecided"],
    ["ccm-c", "undecided"],
  ]);
});

test("its own Lease is never in its way, also with a former holder", async () => {
  const { shards, cluster } = shardsOf({ shard: "a", serviceSelector: "shard=a" });
  cluster.leases = [announcing("ccm-a", "former", { shard: "a", serviceSelector: "shard=a" })];
  expect(await shards.mayLead()).toBe(true);
  expect(shards.known).toMatchObject([{ relation: "self", leader: "former" }]);
});

test("a Lease that is deleted counts as held until its duration is over, and is forgotten then", async () => {
  const { shards, clock, cluster } = shardsOf({ serviceSelector: "shard=a" });
  cluster.leases = [announcing("ccm-b", "two", { serviceSelector: "shard=b" })];
  expect(await shards.isAlive("ccm-b")).toBe(true);
  cluster.leases = [];
  await clock.advance(10_000);
  expect(await shards.isAlive("ccm-b")).toBe(true);
  await clock.advance(5_001);
  expect(await shards.isAlive("ccm-b")).toBe(false);
  expect(shards.known).toEqual([]);
});

test("a Lease whose holder is removed by hand counts as held until its duration is over", async () => {
  const { shards, clock, cluster } = shardsOf({ serviceSelector: "shard=a" });
  const lease = announcing("ccm-b", "two", { serviceSelector: "shard=b" });
  cluster.leases = [{ ...lease, spec: { ...lease.spec, holderIdentity: "" } }];
  expect(await shards.isAlive("ccm-b")).toBe(true);
  await clock.advance(15_001);
  expect(await shards.isAlive("ccm-b")).toBe(false);
});

test("a Lease that is emptied by hand, spec and all, counts as held until its last holder's duration is over", async () => {
  const { shards, clock, cluster } = shardsOf({ serviceSelector: "shard=a" });
  const lease = announcing("ccm-b", "two", { serviceSelector: "shard=b" });
  cluster.leases = [lease];
  await shards.look();
  cluster.leases = [{ ...lease, spec: {} }];
  for (const ms of [0, 15_000]) {
    await clock.advance(ms);
    expect(await shards.isAlive("ccm-b")).toBe(true);
  }
  await clock.advance(1);
  expect(await shards.isAlive("ccm-b")).toBe(false);
});

test("a process is alive for Services only while it leads and its service controller is on", async () => {
  const { shards, cluster } = shardsOf({ serviceSelector: "shard=a" });
  cluster.leases = [announcing("ccm-b", "two", { services: false }), announcing("ccm-c", "", {}), leaseOf("ccm", "go")];
  expect(await shards.isAlive("ccm-b")).toBe(false);
  expect(await shards.isAlive("ccm-c")).toBe(false);
  expect(await shards.isAlive("ccm-d")).toBe(false);
  expect(await shards.isAlive("ccm")).toBe(true);
});
