import { describe, expect, test } from "bun:test";

import { nodeRow, serviceRow } from "../../../host/console/object-rows.ts";
import type { ConsoleStatus } from "../../../host/console/sources.ts";
import { type Findings, problemsIn } from "../../../host/console/troubles.ts";
import { idleStatus } from "./idle-status.ts";

const now = Date.parse("2026-11-22T12:00:00Z");
const at = (minutesAgo: number): string => new Date(now - minutesAgo * 60_000).toISOString();

const service = (name: string, more: Parameters<typeof serviceRow>[0] = {}) =>
  serviceRow({
    metadata: { namespace: "default", name, creationTimestamp: at(5), ...more.metadata },
    spec: { type: "LoadBalancer", ...more.spec },
    status: more.status ?? {},
  });
const failing = (name: string, minutes: number) =>
  service(name, {
    status: {
      conditions: [
        {
          type: "LoadBalancerReady",
          status: "False",
          reason: "Bad",
          message: `${name} is bad`,
          lastTransitionTime: at(minutes),
        },
      ],
    },
  });

const found = (more: Partial<Omit<Findings, "status">> & { readonly status?: Partial<ConsoleStatus> }) =>
  problemsIn({ services: [], nodes: [], writes: [], now, ...more, status: { ...idleStatus, ...more.status } });

const write = (minutes: number, error?: string) => ({
  at: at(minutes),
  controller: "cloud",
  generation: 1,
  system: "cloud" as const,
  operation: "PUT",
  resource: "lb",
  milliseconds: 1,
  causes: [],
  fields: [],
  ...(error !== undefined && { error, status: 403 }),
});

describe("the overview", () => {
  test("has no problem where nothing is wrong", () => {
    const ready = service("web", { status: { loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } } });
    expect(found({ services: [ready], writes: [write(1)] })).toEqual([]);
    expect(found({ services: [service("new", { metadata: { creationTimestamp: at(0.5) } })] })).toEqual([]);
  });

  test("lists the worst first, and of those what lasts longest", () => {
    const problems = found({
      services: [service("waiting"), failing("young", 1), failing("old", 90)],
      status: { warnings: ["route: one", "route: two"] },
    });
    expect(problems.map(({ severity, cause, since, view }) => ({ severity, cause, since, view }))).toEqual([
      { severity: "critical", cause: "default/old: old is bad", since: at(90), view: "services/default/old" },
      { severity: "critical", cause: "default/young: young is bad", since: at(1), view: "services/default/young" },
      {
        severity: "warning",
        cause: "default/waiting: has no address yet",
        since: at(5),
        view: "services/default/waiting",
      },
      { severity: "warning", cause: "one\ntwo", since: undefined, view: "controllers" },
    ]);
    for (const { advice, runbook } of problems) expect([advice, runbook]).not.toContain("");
  });

  test.each<[string, Parameters<typeof found>[0], string]>([
    ["no leader", { status: { locks: [{ lease: "main", leading: false, leader: "", controllers: [] }] } }, "main"],
    ["a refused reload", { status: { lastRefusal: { at: at(1), reason: "key x" } } }, "key x"],
    [
      "a plugin that was left out",
      { status: { refusedPlugins: [{ plugin: "mine", reason: "syntax", at: at(1) }] } },
      "mine: syntax",
    ],
    ["a drain that waits", { status: { waitingFor: ["route"] } }, "the drain waits for route"],
    ["a disabled cloud provider", { status: { disabled: true } }, "no controller runs"],
    ["a failed write", { writes: [write(3), write(2, "forbidden")] }, "PUT lb: 403 forbidden"],
    [
      "a node that is not initialized",
      { nodes: [nodeRow({ metadata: { name: "vm" }, spec: { taints: [uninitialized()] } })] },
      "vm",
    ],
    [
      "a deletion that takes long",
      { services: [service("old", { metadata: { deletionTimestamp: at(9), finalizers: ["f"] } })] },
      "default/old: waits for f",
    ],
  ])("names %s", (_title, findings, cause) => {
    expect(found(findings).map((problem) => problem.cause)).toEqual([expect.stringContaining(cause)]);
  });

  test("names a Service that is served without some of its settings, and takes no notice of others' conditions", () => {
    const served = (type: string) =>
      service("web", {
        status: {
          loadBalancer: { ingress: [{ ip: "192.0.2.1" }] },
          conditions: [
            { type, status: "True", reason: "EnsuredLoadBalancer", message: "odd range", lastTransitionTime: at(7) },
          ],
        },
      });
    expect(found({ services: [served("LoadBalancerReady")] })).toMatchObject([
      { severity: "warning", cause: "default/web: odd range", since: at(7), view: "services/default/web" },
    ]);
    expect(found({ services: [served("example.com/Reviewed")] })).toEqual([]);
  });

  test("forgets a failed write after a later one that succeeded, and after ten minutes", () => {
    expect(found({ writes: [write(3, "forbidden"), write(2)] })).toEqual([]);
    expect(found({ writes: [write(11, "forbidden")] })).toEqual([]);
    expect(found({ writes: [write(3, "forbidden"), { ...write(2), resource: "another" }] })).toHaveLength(1);
  });

  test("names the resource of a failed write once, whether or not its error does", () => {
    const causes = (error: string) => found({ writes: [write(1, error)] }).map(({ cause }) => cause);
    expect(causes("forbidden")).toEqual(["PUT lb: 403 forbidden"]);
    expect(causes("ARM PUT lb: 403 AuthorizationFailed")).toEqual(["ARM PUT lb: 403 AuthorizationFailed"]);
  });

  test("shows the controllers' warnings, but not failing Services twice", () => {
    const warnings = [
      "service-lb: failing Services: 30",
      "service-lb: Service default/web fails since 2026: forbidden",
      "service-lb: and 29 more",
      "service-lb: the queue is long",
    ];
    const shown = (services: Findings["services"]) =>
      found({ status: { warnings }, services }).map(({ title, cause }) => [title, cause.split("\n").length]);
    expect(shown([])).toEqual([["service-lb needs an operator", 1]]);
    expect(shown(undefined)).toEqual([["service-lb needs an operator", 4]]);
  });

  test.each([
    ["Removals are held", "CloudRemovalsHeld", "plan", "azure-cloud: removals are held since @: 3 of 3 rules of lb"],
    [
      "Deletions of nodes are held",
      "CloudNodeDeletionsHeld",
      "nodes",
      "lc: deletions of nodes are held since @: 30 of",
    ],
    [
      "Requests to the cloud are throttled",
      "CloudControllerHostThrottled",
      "cloud",
      "azure-cloud: GET a/b fails since @, 2 attempts: ARM throttles reads of a/b",
    ],
    ["Requests to the cloud fail", "FailedRequests", "cloud", "azure-cloud: GET a/b fails since @, 1 attempt: refused"],
  ])("names %s with its row of the runbook, its view and since when", (title, runbook, view, line) => {
    const warning = line.replace("@", at(3));
    const cause = warning.slice(warning.indexOf(": ") + 2);
    expect(found({ status: { warnings: [warning, "other: line"] } })).toMatchObject([
      { severity: "warning", title, runbook, view, since: at(3), cause },
      { title: "other needs an operator", cause: "line" },
    ]);
  });

  test("names requests of one cause together, since the first of them, and at most 20", () => {
    const line = (minutes: number): string =>
      `azure-cloud: GET a/${minutes} fails since ${at(minutes)}, 1 attempt: refused`;
    const warnings = Array.from({ length: 25 }, (_, index) => line(index + 1));
    const [problem, ...others] = found({ status: { warnings } });
    expect(others).toEqual([]);
    expect(problem?.since).toBe(at(25));
    expect(problem?.cause.split("\n").slice(19)).toEqual([expect.stringContaining("GET a/20 "), "and 5 more"]);
  });

  test("says nothing about throttling for a Service that fails by it, and since when a node waits", () => {
    const warnings = [`service-lb: Service default/web fails since ${at(1)}: ARM throttles reads`];
    expect(found({ status: { warnings } })).toEqual([]);
    const node = nodeRow({ metadata: { name: "vm", creationTimestamp: at(4) }, spec: { taints: [uninitialized()] } });
    expect(found({ nodes: [node] })).toMatchObject([{ cause: "vm", since: at(4) }]);
  });

  test("names a suspended allocation of pod CIDRs with its row of the runbook", () => {
    const warnings = ["ipam: Pod CIDR allocation is suspended: another allocator is active"];
    expect(found({ status: { warnings } })).toMatchObject([{ runbook: "CloudPodCIDRAllocationSuspended" }]);
  });

  test("names a controller that skipped itself, but not one that a flag turns off or whose plugin was left out", () => {
    const unsupported = "--configure-cloud-routes is set, but the cloud does not support routes";
    const reasons = ["no load balancers", "--configure-cloud-routes is false", "threw", unsupported];
    const skipped = reasons.map((reason, index) => ({ name: `c${index}`, reason }));
    const refusedPlugins = [{ plugin: "c2", reason: "threw", at: at(1) }];
    expect(found({ status: { skipped, refusedPlugins } }).map(({ title, cause }) => [title, cause])).toEqual([
      ["Plugin left out", "c2: threw"],
      ["Controller does not run", "c0: no load balancers"],
      ["Controller does not run", `c3: ${unsupported}`],
    ]);
  });

  test("names 20 of a thousand failing Services, and links to all of them", () => {
    const problems = found({ services: Array.from({ length: 1_000 }, (_, index) => failing(`s${index}`, 1)) });
    expect(problems).toHaveLength(21);
    expect(problems.at(-1)).toMatchObject({ cause: "and 980 more", view: "services?filter=state:failing" });
  });
});

const uninitialized = () => ({
  key: "node.cloudprovider.kubernetes.io/uninitialized",
  value: "true",
  effect: "NoSchedule",
});
