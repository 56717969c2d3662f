import { expect, setDefaultTimeout, test } from "bun:test";

import { changeService } from "./actions/services.ts";
import { findDefect, likelySeeds } from "./bites.ts";
import {
  campaign,
  CampaignEndedError,
  type CampaignOptions,
  describeFailure,
  firstDifference,
  type Report,
} from "./campaign.ts";
import type { ClusterName } from "./clusters.ts";
import { type ActionKind, actionKinds, type History, historyOf } from "./history.ts";
import type { InvariantName } from "./invariants/table.ts";
import { change, duringRead, history as short, weather } from "./kept/history.ts";
import { keptHistories } from "./kept/table.ts";
import { fullPace, type Pace } from "./pace.ts";

setDefaultTimeout(900_000);

/** Always run. */
const fixedSeeds = "1-4,6-8,60,67,68,71,97,106,171,216";

/** A write or an event that only the cluster has. */
const signs: Readonly<Record<ClusterName, RegExp>> = {
  plain: /PUT \S+\/virtualMachineScaleSets\/vmss0\/virtualMachines\/\d+ .* -> 20/u,
  "dual-stack": /PUT \S+\/publicIPAddresses\/\S+-IPv6 .* -> 20/u,
  "few Pod CIDRs": /reason="CIDRNotAvailable"/u,
  "node IPs": /PUT \S+\/loadBalancers\/kubernetes .* -> 20/u,
  "shared addresses": /is taken by Service default/u,
  "virtual machines": /PUT \S+\/networkInterfaces\/\S+ .* -> 20/u,
  "node IPs of virtual machines": /"Successfully initialized node .* node="standalone/u,
  "shared addresses of node IPs": /is taken by Service default/u,
  "dual-stack shared addresses": /is taken by Service default/u,
  "Pods on several load balancers": /reason="LoadBalancerBackendPoolUpdated"/u,
  "several load balancers": /PUT \S+\/loadBalancers\/gold .* -> 20/u,
};

async function reportsOf(seeds: string): Promise<ReadonlyMap<number, Report>> {
  const reports = new Map<number, Report>();
  for await (const report of campaign({ seeds, trace: true })) reports.set(report.seed, report);
  return reports;
}

let fixed: ReturnType<typeof reportsOf> | undefined;
/** Reports of the fixed set, run once for all tests. */
const fixedReports = (): ReturnType<typeof reportsOf> => (fixed ??= reportsOf(fixedSeeds));

test("no history of a fixed set breaks an invariant of the whole system", async () => {
  const failures: string[] = [];
  const unseen = new Map<string, RegExp>(Object.entries(signs));
  for (const report of (await fixedReports()).values()) {
    if (report.violations.length > 0) failures.push(describeFailure(report));
    const { cluster } = historyOf(report.seed);
    if (report.trace.some((line) => unseen.get(cluster)?.test(line))) unseen.delete(cluster);
    // Pools of node IPs are filled without a write of an instance.
    const ofInstances = report.trace.some((line) => signs.plain.test(line));
    if (cluster.includes("node IPs") || cluster.includes("several load balancers")) expect(ofInstances).toBe(false);
  }
  expect(failures).toEqual([]);
  expect([...unseen.keys()]).toEqual([]);
});

test("no minute of a fixed set breaks an invariant, those that once did among them", async () => {
  const failures: string[] = [];
  let count = 0;
  for await (const report of campaign({
    seeds: "1-8,1491,1550,1625,3090,3375,8605,9760,10338,10580,14238,33059,12766,49156,53042,900223",
    minutes: true,
    trace: true,
  })) {
    count += 1;
    if (report.violations.length > 0) failures.push(describeFailure(report));
  }
  expect(failures).toEqual([]);
  expect(count).toBe(23);
});

test("the same history takes the same steps, whatever ran before it in the process", async () => {
  // The fixed set has them the other way round. One has most kinds of action, the other a dual-stack cluster.
  const [one, other] = await Promise.all([reportsOf("4,3"), fixedReports()]);
  for (const [seed, report] of one) {
    const again = other.get(seed);
    expect(again === undefined ? [`seed ${seed} has not run`] : firstDifference(report, again)).toEqual([]);
  }
  expect(one.size).toBe(2);
});

/** Of histories whose actions are over after nine minutes, and in which nothing fails often. */
const brief: Pace = { lease: "default", eventfulMs: 10 * 60_000, silentMs: 2 * 60_000, convergeMs: 12 * 60_000 };

const one = { pick: 7, forMs: 5_000, fault: "slow", target: "azure" } as const;

test("every kind of action happens in a history that has one of each, and no invariant breaks", async () => {
  // Those that leave a resource Failed or Updating come last: others would find nothing to do.
  const last: readonly ActionKind[] = [
    "foreignRule",
    "foreignTag",
    "failOperations",
    "refuseWrites",
    "denyWrites",
    "failLateOperation",
    "prolongOperation",
  ];
  // Pods move in clusters of one kind, of which the fixed set has a history.
  const possible = actionKinds.filter((kind) => kind !== "movePods");
  const ordered = [...possible.filter((kind) => !last.includes(kind)), ...last];
  const startMs = 60_000;
  const stepMs = Math.floor((fullPace.eventfulMs - startMs) / ordered.length);
  const kinds = ordered.map((kind, index) => ({ ...one, kind, at: startMs + index * stepMs, host: index % 3 }));
  const history: History = {
    seed: 2,
    cluster: "plain",
    hosts: 3,
    nodes: 4,
    services: 4,
    operationPolls: 1,
    second: { pair: "label", hosts: 1 },
    actions: kinds,
  };
  const reports = await Array.fromAsync(campaign({ seeds: JSON.stringify(history), trace: true }));
  for (const report of reports) {
    expect(report.violations, describeFailure(report)).toEqual([]);
    expect(Object.keys(report.happened).toSorted()).toEqual(possible.toSorted());
  }
  expect(reports).toHaveLength(1);
});

/** A process is paused between a write and its reply, longer than its lease is valid, and has another write to do. */
const paused: History = {
  seed: 3026,
  cluster: "plain",
  hosts: 3,
  nodes: 6,
  services: 4,
  operationPolls: 10,
  pace: brief,
  actions: [
    { ...one, at: 100_000, kind: "foreignTag", host: 0 },
    { ...one, at: 300_000, kind: "pauseAtWrite", host: 2, pick: 811, forMs: 75_970 },
    { ...one, at: 301_000, kind: "joinNodes", host: 0, pick: 832 },
  ],
};

test("a failure is shrunk to the actions that it needs, and what it prints runs it again with the same trace", async () => {
  const defect = "writes without holding the lease";
  const [shrunk] = await Array.fromAsync(
    campaign({ seeds: JSON.stringify(paused), defect, trace: true, shrink: true }),
  );
  expect(shrunk?.violations[0]?.invariant).toBe("no write after the fence");
  expect(shrunk?.history?.actions.length).toBeLessThan(paused.actions.length);
  const text = shrunk === undefined ? "" : describeFailure(shrunk);
  expect(text).toContain("* kube PATCH");
  expect(text).not.toMatch(/GET \S+ -> 200/u);
  const [, replay = ""] = /--replay='(.+)'/u.exec(text) ?? [];
  const [again] = await Array.fromAsync(campaign({ seeds: replay, defect }));
  expect(again?.hash).toBe(shrunk?.hash ?? "");
});

test("a history finds a process that writes after it was paused for longer than its lease is valid", async () => {
  const limits = { cpuSeconds: 120, memoryMiB: 2_048 };
  expect(await findDefect("writes without holding the lease", [JSON.stringify(paused)], limits)).toMatchObject({
    histories: 1,
    by: "no write after the fence",
  });
});

type Ending = InvariantName | "limit" | "exception" | "clean";

/** A campaign whose histories end as given, with the defect and without; the others are clean. Each takes a CPU second. */
function scripted(endings: Readonly<Record<string, { readonly bitten?: Ending; readonly clean?: Ending }>>) {
  const runs: string[] = [];
  const outcome = { hash: "", trace: [], requests: 0, writes: 0, virtualMs: 0, cpuSeconds: 1, happened: {} };
  async function* run({ seeds, defect, limits, ended }: CampaignOptions): AsyncGenerator<Report> {
    runs.push(`${defect === undefined ? "clean" : "bitten"} ${seeds} for ${limits?.cpuSeconds} s`);
    let seconds = 0;
    try {
      for (const seed of seeds.split(",")) {
        seconds += 1;
        const ending = endings[seed]?.[defect === undefined ? "clean" : "bitten"] ?? "clean";
        if (ending === "exception") throw new CampaignEndedError(1);
        if (ending === "limit") seconds = limits?.cpuSeconds ?? 0;
        if (seconds >= (limits?.cpuSeconds ?? Infinity)) throw new CampaignEndedError(137);
        const violations = ending === "clean" || ending === "limit" ? [] : [{ invariant: ending, text: "" }];
        yield { ...outcome, seed: Number(seed), violations };
      }
    } finally {
      ended?.(seconds);
    }
  }
  return { run, runs };
}

const hundred = { cpuSeconds: 100, memoryMiB: 64 };

test("a defect is found by the first history that fails with it and is clean without it", async () => {
  const { run, runs } = scripted({
    2: { bitten: "then silent", clean: "one writer" },
    4: { bitten: "continuity" },
  });
  expect(await findDefect("a defect", ["1", "2", "3", "4", "5"], hundred, run)).toEqual({
    histories: 4,
    skipped: 1,
    history: "4",
    by: "continuity",
    cpuSeconds: 6,
  });
  expect(runs).toEqual(["bitten 1,2,3,4,5 for 100 s", "clean 2 for 60 s", "bitten 3,4,5 for 97 s", "clean 4 for 60 s"]);
});

test("a process that has run out of CPU time finds a defect only if its last history alone needs too much because of it", async () => {
  const slow = ["1", "2", "3"];
  const found = scripted({ 2: { bitten: "limit" } });
  expect(await findDefect("a defect", slow, hundred, found.run)).toMatchObject({ history: "2", by: "its limits" });
  expect(found.runs).toEqual(["bitten 1,2,3 for 100 s", "bitten 2 for 60 s", "clean 2 for 60 s"]);
  const alwaysSlow = scripted({ 2: { bitten: "limit", clean: "limit" } });
  expect(await findDefect("a defect", slow, hundred, alwaysSlow.run)).toMatchObject({ skipped: 1, by: undefined });
  const many = scripted({});
  const enough = Array.from({ length: 150 }, (_, index) => String(index + 1));
  expect(await findDefect("a defect", enough, hundred, many.run)).toMatchObject({
    histories: 100,
    skipped: 0,
    by: undefined,
  });
  expect(many.runs.slice(1)).toEqual(["bitten 100 for 60 s"]);
});

test("a search ends with the error of a process that failed before it ran a history", async () => {
  const { run } = scripted({ 1: { bitten: "exception" } });
  await expect(findDefect("a defect", ["1"], hundred, run)).rejects.toThrow("ended with status 1");
});

test("the seeds that are tried first for a defect have what it needs, and need the fewest requests", () => {
  const seeds = Array.from({ length: 700 }, (_, index) => index + 1);
  const defect = { file: "", from: "", to: "", needs: ["deleteLease", "deleteService"] } as const;
  const likely = likelySeeds(defect, seeds, 3).map(historyOf);
  expect(likely).toHaveLength(3);
  for (const { actions } of likely) {
    const happening = new Set(actions.map(({ kind }) => kind));
    expect([...happening]).toEqual(expect.arrayContaining(["deleteLease", "deleteService"]));
  }
  const ofTwo = likelySeeds({ ...defect, hosts: 2 }, seeds, 3).map(historyOf);
  expect(ofTwo.map(({ hosts }) => hosts >= 2)).toEqual([true, true, true]);
  const hides = /kill|stopHost|delete|recreate|force|reload|retag|Credentials|stealLease/u;
  const isClear = ({ actions }: History): boolean => !actions.some(({ kind }) => hides.test(kind));
  const likelyFor = (kind: ActionKind): readonly History[] =>
    likelySeeds({ file: "", from: "", to: "", needs: [kind] }, seeds, 3).map(historyOf);
  expect(likelyFor("joinNodes").map(isClear)).toEqual([true, true, true]);
  const deletions = likelyFor("deleteService")[0]?.actions.filter(({ kind }) => kind === "deleteService");
  expect(deletions?.length).toBeGreaterThan(1);
  const costOf = ({ hosts, actions }: History): number => hosts * (12 + actions.length);
  const [cheapest] = likelySeeds({ file: "", from: "", to: "" }, seeds, 1).map(historyOf);
  const costs = seeds.map(historyOf).filter(isClear).map(costOf);
  expect(cheapest === undefined ? Infinity : costOf(cheapest)).toBeLessThanOrEqual(Math.min(...costs));
});

/** A VM is stopped for a while, and another one joins meanwhile. */
const stopped: History = {
  seed: 1,
  cluster: "node IPs",
  hosts: 1,
  nodes: 4,
  services: 2,
  operationPolls: 1,
  actions: [
    { ...one, at: 120_000, kind: "stopNode", host: 0, pick: 1, forMs: 120_000 },
    { ...one, at: 190_000, kind: "joinNodes", host: 0, pick: 1 },
  ],
};

test.each(["takes away routes of nodes that are not ready", "takes nodes that are not ready out of pools"])(
  "a history finds what is removed without a cause by a product that %s",
  async (defect) => {
    const [report] = await Array.fromAsync(campaign({ seeds: JSON.stringify(stopped), defect }));
    expect(report?.violations[0]?.invariant).toBe("no removal without a cause");
  },
);

test("a history finds a former generation that writes after the next one has begun to run", async () => {
  const at = 120_000;
  const actions = [
    { ...one, at, kind: "retag", host: 0 },
    { ...one, at: at + 10_000, kind: "createService", host: 0 },
  ] as const;
  const history: History = { ...stopped, cluster: "plain", services: 1, actions };
  const defect = "runs the next generation beside the former one";
  const [report] = await Array.fromAsync(campaign({ seeds: JSON.stringify(history), defect }));
  expect(report?.violations[0]?.invariant).toBe("no generation writes after a newer one");
});

test("a history finds a CIDR that is not freed where CIDRs have run out", async () => {
  const actions = [
    { ...one, at: 120_000, kind: "loseNode", host: 0, pick: 1 },
    { ...one, at: 420_000, kind: "joinNodes", host: 0, pick: 0 },
  ] as const;
  const history: History = { ...stopped, cluster: "few Pod CIDRs", services: 1, pace: brief, actions };
  const defect = "never frees a CIDR";
  const [report] = await Array.fromAsync(campaign({ seeds: JSON.stringify(history), defect }));
  expect(report?.violations[0]?.text).toMatch(/has no Pod CIDR, and 1 are free/u);
  const [clean] = await Array.fromAsync(campaign({ seeds: JSON.stringify(history) }));
  expect(clean?.violations).toEqual([]);
});

test("a history finds a setting that a new load balancer would have and the one that has changed lacks", async () => {
  const defect = "keeps the interval that a probe has";
  const changed = keptHistories["the interval of a probe changes"];
  const [report] = await Array.fromAsync(campaign({ seeds: JSON.stringify(changed), defect }));
  expect(report?.violations[0]?.invariant).toBe("equal to a fresh build");
});

test("a history finds a product that believes what it knew before a write that failed, when its user takes the change back", async () => {
  const history: History = {
    ...stopped,
    cluster: "plain",
    services: 1,
    pace: brief,
    actions: [
      { ...one, at: 200_000, kind: "failOperations", host: 0, pick: 0 },
      { ...one, ...change(0, 1, "ClientIP"), at: 220_000, kind: "revertService", host: 0, forMs: 60_000 },
    ],
  };
  const defect = "believes its cache after a failed write";
  const [report] = await Array.fromAsync(campaign({ seeds: JSON.stringify(history), defect }));
  expect(report?.violations[0]).toMatchObject({
    invariant: "eventually stable",
    text: expect.stringContaining("rule TCP 80 SourceIP 4 min is left over"),
  });
});

test("a Service is not settled while a write from between two wishes is to come that look the same in Azure", async () => {
  // To session affinity and, while the security group is read for it, to a policy that no rule shows.
  const meanwhile = duringRead("/networkSecurityGroups", changeService, '"Local"');
  const history: History = {
    ...stopped,
    cluster: "plain",
    services: 1,
    operationPolls: 0,
    actions: [
      { ...one, ...meanwhile, at: 431_988, host: 0, forMs: 109_885 },
      { ...one, ...change(0, 1, "ClientIP"), at: 443_107, host: 0 },
    ],
  };
  const [report] = await Array.fromAsync(campaign({ seeds: JSON.stringify(history) }));
  expect(report?.violations).toEqual([]);
  expect(report?.happened).toEqual({ changeAtRead: 1, changeService: 1 });
});

test("a cluster is not stable while a load balancer is Failed that looks as its Service wants it", async () => {
  // A Service that is refused for minutes is next tried minutes after the write that fails.
  const history: History = {
    ...stopped,
    cluster: "plain",
    services: 1,
    actions: [
      { ...one, ...change(0, 1, 'idle-timeout":"1"'), at: 188_000, host: 0 },
      { ...one, kind: "failOperations", at: 800_000, host: 0, pick: 0 },
      { ...one, ...change(0, 1, "ClientIP"), at: 845_000, host: 0 },
    ],
  };
  const [report] = await Array.fromAsync(campaign({ seeds: JSON.stringify(history), trace: true }));
  expect(report?.violations).toEqual([]);
  expect(report?.trace.join("\n")).toContain("ARM operation failed");
});

test.each(["failing writes", "replies reset"] as const)(
  "a cluster is not stable before a condition is written whose write has failed: %s",
  async (fault) => {
    // Those that no server has carried out, as it is refused, and the one that it is not any more.
    const failures = [129.9, 134.5, 144.5, 164.5, 204.5, 284.5, 444.5].map(
      (at) => [at, weather("kube", "failing writes", 2 + (at - 129.9) / 30)] as const,
    );
    const history = short(
      { services: 1, convergeMinutes: 12, lease: "slow" },
      ...failures,
      [130, change(0, 1, 'idle-timeout":"1"')],
      [469.9, weather("kube", fault, 2)],
      [470, change(0, 1)],
    );
    const [report] = await Array.fromAsync(campaign({ seeds: JSON.stringify(history), trace: true }));
    expect(report?.violations).toEqual([]);
    // It is next tried five minutes after the attempt before.
    const writes = report?.trace.filter((line) => line.includes("* kube PATCH /api/v1/namespaces/default/services/s0"));
    expect(writes?.at(-1)).toMatch(/^ +7\d\d\..* -> 200$/u);
  },
);
