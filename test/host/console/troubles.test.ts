import { describe, expect, test } from "bun:test";

import { nodeRow, serviceRow } from "../../../host/console/object-rows.ts";
import type { ConsoleStatus } from "../../../host/console/sources.ts";
import { type Findings, problemsIn } from "../../../host/console/troubles.ts";
import { cloudWrite, idleStatus } from "./idle-status.ts";

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
  problemsIn({
    services: [],
    nodes: [],
    writes: [],
    warnings: [],
    now,
    ...more,
    status: { ...idleStatus, ...more.status },
  });

const write = (minutes: number, error?: string) =>
  cloudWrite({ at: at(minutes), ...(error !== undefined && { error, status: 403 }) });

describe("the overview", () => {
  test("has no problem where nothing is wrong", () => {
    const ready = service("web", { status: { loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } } });
    expect(found({ services: [ready], writes: [write(1)] })).toEqual([]);
    expect(found({ services: [service("new", { metadata: { creationTimestamp: at(0.5) } })] })).toEqual([]);
  });

  test("lists the worst first, and of those what lasts longest", () => {
    const problems = found({
      services: [service("waiting"), failing("young", 1), failing("old", 90)],
      warnings: ["one", "two"].map((text) => ({ source: "route", text })),
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

  test("names a lock whose holder no longer renews it, and a main lock that cannot be read", () => {
    const causes = (...locks: readonly object[]) =>
      found({
        status: {
          leading: false,
          locks: locks.map((own) => ({ lease: "main", leading: false, leader: "", controllers: [], ...own })),
        },
      }).map(({ title, cause }) => `${title}: ${cause}`);
    expect(causes({ leader: "gone_1" })).toEqual([]);
    expect(causes({ leader: "gone_1", expired: true })).toEqual([
      "No leader: gone_1 no longer renews the Lease main, and no replica has acquired it",
    ]);
    expect(causes({ unread: true })).toEqual(["No leader: the Lease main has not been read yet"]);
    // A standby reads only the main one.
    const further = { lease: "migration", unread: true };
    expect(causes({ leader: "two_1" }, further)).toEqual([]);
    expect(causes({}, further)).toEqual(["No leader: the Lease main has no holder"]);
  });

  test("names since when the writes of a resource fail, whatever other writers change meanwhile", () => {
    const drift = { ...write(1), operation: "drift" };
    const since = (...writes: Findings["writes"]) => found({ writes }).map((problem) => problem.since);
    expect(since(write(60, "first"), write(3, "second"), drift)).toEqual([at(60)]);
    expect(since(write(60, "first"), write(30), write(3, "second"))).toEqual([at(3)]);
    expect(since(write(60, "first"), write(30, "second"))).toEqual([]);
  });

  test("names a Service that fails to give up its load balancer after a change of its type, once", () => {
    const about = { source: "service-lb", kind: "ServicesFail", subject: "default/web", text: "web is bad" } as const;
    const row = serviceRow({
      metadata: { namespace: "default", name: "web", finalizers: ["service.kubernetes.io/load-balancer-cleanup"] },
      spec: { type: "ClusterIP" },
      status: {
        conditions: [
          { type: "LoadBalancerReady", status: "False", reason: "Bad", message: "denied", lastTransitionTime: at(9) },
        ],
      },
    });
    expect(found({ services: [row], warnings: [about] })).toMatchObject([
      { title: "Service fails", cause: "default/web: denied", since: at(9) },
    ]);
  });

  test("names a shard that keeps this one from leading, and one that cannot be compared", () => {
    const locks = [{ lease: "ccm-a", leading: false, leader: "", controllers: [] }];
    const shard = (relation: string) => ({ lease: "ccm-b", leader: "pod-b_1", relation });
    const titles = (...relations: readonly string[]) =>
      found({ status: { locks, leading: false, shards: relations.map(shard) } }).map(({ severity, title, cause }) => [
        severity,
        title,
        cause,
      ]);
    const unheld = ["critical", "No leader", "the Lease ccm-a has no holder"];
    const cause = "the holder of the Lease ccm-b, pod-b_1";
    expect(titles("self", "disjoint")).toEqual([unheld]);
    expect(titles("overlaps")).toEqual([unheld, ["critical", "Another shard serves some of the same Services", cause]]);
    expect(titles("undecided")).toEqual([unheld, ["warning", "Another shard does not show what it serves", cause]]);
  });

  test("names the differences that a shadow has found, and what it could not compare", () => {
    const difference = (name: string, reasons: readonly string[] = []) => ({
      action: "change",
      title: `load balancer ${name}`,
      reasons,
      since: at(4),
    });
    const differences = [difference("one", ["Service default/web"]), difference("two")];
    const shadow = { differences, notCompared: ["service default/api: 403", "service default/web: 403"] };
    expect(found({ status: { shadow } })).toMatchObject([
      { title: "Differs from the other manager", cause: "change load balancer one: Service default/web", since: at(4) },
      { title: "Differs from the other manager", cause: "change load balancer two: the configuration", view: "plan" },
      { title: "Not compared", cause: "service default/api: 403\nservice default/web: 403", runbook: "Shadow" },
    ]);
    expect(found({ status: { shadow: { differences: [], notCompared: [] } } })).toEqual([]);
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
    const about = { source: "service-lb", kind: "ServicesFail" } as const;
    const warnings = [
      { ...about, text: "failing Services: 30" },
      { ...about, text: `Service default/web fails since ${at(2)}: forbidden`, subject: "default/web", since: at(2) },
      { ...about, text: "and 29 more" },
      { source: "service-lb", text: "the queue is long" },
    ];
    const shown = (services: Findings["services"]) => found({ warnings, services }).map(({ title }) => title);
    expect(shown([failing("web", 2)])).toEqual(["Service fails", "service-lb needs an operator"]);
  });

  test("names a failing Service whose condition could not be written, or that is not read here", () => {
    const about = { source: "service-lb", kind: "ServicesFail" } as const;
    const text = `Service default/web fails since ${at(0.5)}: ARM throttles reads`;
    const warnings = [
      { ...about, text: "failing Services: 1" },
      { ...about, text, subject: "default/web", since: at(0.5) },
    ];
    for (const services of [[service("web"), failing("other", 9)], undefined])
      expect(found({ warnings, services }).filter(({ cause }) => cause.includes("throttles"))).toEqual([
        expect.objectContaining({
          severity: "critical",
          title: "Service fails, and its status does not show it",
          cause: text,
          since: at(0.5),
          view: "services/default/web",
        }),
      ]);
  });

  test("counts the failing Services that neither a condition nor a warning names", () => {
    const about = { source: "service-lb", kind: "ServicesFail" } as const;
    const warnings = [
      { ...about, text: "failing Services: 5" },
      { ...about, text: "Service default/web fails", subject: "default/web" },
      { ...about, source: "another", text: "Service default/web fails there", subject: "default/web" },
      { ...about, text: "Service default/api fails", subject: "default/api" },
      { ...about, text: "and 3 more", further: 3 },
    ];
    const title = "Service fails, and its status does not show it";
    const hidden = (...shown: readonly string[]) =>
      found({ warnings, services: shown.map((name) => failing(name, 2)) })
        .filter((problem) => problem.title === title)
        .map(({ cause, view }) => [cause, view]);
    expect(hidden("web", "other")).toEqual([
      ["Service default/api fails", "services/default/api"],
      ["further failing Services: 2", "services"],
    ]);
    expect(hidden("web", "api")).toEqual([["further failing Services: 3", "services"]]);
    expect(hidden("web", "api", "one", "two", "three")).toEqual([]);
  });

  test("shows the error of a node that is not initialized, and of one that fails later, with its controllers", () => {
    const about = { source: "cloud-node", kind: "NodesFail" } as const;
    const text = (name: string) => `Node ${name} fails since ${at(3)}: instance not found`;
    const warnings = [
      { ...about, text: "failing Nodes: 2" },
      { ...about, text: text("vm"), subject: "vm", since: at(3) },
      { ...about, text: text("old"), subject: "old", since: at(3) },
      { ...about, source: "cloud-node-lifecycle", text: text("old"), subject: "old", since: at(3) },
    ];
    const uninitializedRow = (name: string) => nodeRow({ metadata: { name }, spec: { taints: [uninitialized()] } });
    const nodes = [uninitializedRow("vm"), uninitializedRow("new"), nodeRow({ metadata: { name: "old" } })];
    expect(found({ warnings, nodes }).map(({ title, cause, view }) => [title, cause, view])).toEqual([
      ["Node fails", `cloud-node: ${text("old")}`, "nodes/old"],
      ["Node fails", `cloud-node-lifecycle: ${text("old")}`, "nodes/old"],
      ["Node is not initialized", text("vm"), "nodes/vm"],
      ["Node is not initialized", "new", "nodes/new"],
    ]);
  });

  test.each([
    ["RemovalsHeld", "Removals are held", "CloudRemovalsHeld", "plan"],
    ["NodeDeletionsHeld", "Deletions of nodes are held", "CloudNodeDeletionsHeld", "nodes"],
    ["AllocationSuspended", "Pod CIDR allocation is suspended", "CloudPodCIDRAllocationSuspended", "nodes?sort=cidrs"],
    ["RequestsThrottled", "Requests to the cloud are throttled", "CloudControllerHostThrottled", "cloud"],
    ["RequestsFail", "Requests to the cloud fail", "FailedRequests", "cloud"],
  ] as const)("explains %s by its kind: %s, row %s, view %s", (kind, title, runbook, view) => {
    const warnings = [
      { source: "one", kind, text: "any words", since: at(3) },
      { source: "other", text: "removals are held since today: ARM throttles reads" },
    ];
    expect(found({ warnings })).toMatchObject([
      { severity: "warning", title, runbook, view, since: at(3), cause: "any words" },
      { title: "other needs an operator", cause: "removals are held since today: ARM throttles reads" },
    ]);
  });

  test("counts no Service as failing for a warning of another kind about an object", () => {
    const warnings = [{ source: "one", kind: "RequestsFail" as const, text: "GET fails", subject: "default/web" }];
    expect(found({ warnings }).map(({ title }) => title)).toEqual(["Requests to the cloud fail"]);
  });

  test("shows a warning whose kind this host does not know as a line of its controller", () => {
    const later = JSON.parse('{"source":"later","text":"new trouble","kind":"toString"}');
    expect(found({ warnings: [later] })).toMatchObject([{ title: "later needs an operator", cause: "new trouble" }]);
  });

  test("names requests of one cause together, since the first of them, and at most 20", () => {
    const warnings = Array.from({ length: 25 }, (_, index) => ({
      source: "azure-cloud",
      kind: "RequestsFail" as const,
      text: `GET a/${index + 1} fails`,
      since: at(index + 1),
    }));
    const [problem, ...others] = found({ warnings });
    expect(others).toEqual([]);
    expect(problem?.since).toBe(at(25));
    expect(problem?.cause.split("\n").slice(19)).toEqual(["GET a/20 fails", "and 5 more"]);
    expect(found({ warnings: warnings.slice(0, 20) })[0]?.cause).toEndWith("GET a/20 fails");
  });

  test("names a rollback for a day", () => {
    const rolledBack = (hours: number) => {
      const lastRollback = {
        generation: 2,
        controller: "c",
        reason: "threw",
        outcome: "1 runs",
        replacement: undefined,
        at: at(hours * 60),
      };
      return found({ status: { lastRollback } }).map(({ cause }) => cause);
    };
    expect(rolledBack(23)).toEqual(["generation 2, c: threw; 1 runs"]);
    expect(rolledBack(25)).toEqual([]);
  });

  test("names since when a node waits, and takes no notice of those that are only not ready or shut down", () => {
    const stopped = { key: "node.cloudprovider.kubernetes.io/shutdown", effect: "NoSchedule" };
    const others = [{ metadata: { name: "a" } }, { metadata: { name: "b" }, spec: { taints: [stopped] } }].map(nodeRow);
    expect(others.map(({ state }) => state)).toEqual(["not ready", "shut down"]);
    expect(found({ nodes: others })).toEqual([]);
    const node = nodeRow({ metadata: { name: "vm", creationTimestamp: at(4) }, spec: { taints: [uninitialized()] } });
    expect(found({ nodes: [node] })).toMatchObject([{ cause: "vm", since: at(4) }]);
  });

  test("names a plugin that was left out with its own row of the runbook", () => {
    const refusedPlugins = [{ plugin: "mine", reason: "syntax", at: at(1) }];
    expect(found({ status: { refusedPlugins } })).toMatchObject([{ runbook: "PluginRefused" }]);
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
    const oneMore = found({ services: Array.from({ length: 21 }, (_, index) => failing(`s${index}`, 1)) });
    expect(oneMore.at(-1)).toMatchObject({ cause: "and 1 more" });
  });
});

const uninitialized = () => ({
  key: "node.cloudprovider.kubernetes.io/uninitialized",
  value: "true",
  effect: "NoSchedule",
});
