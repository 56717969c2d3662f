import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { isObject, kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import type { PlanDocument } from "../../../host/changes/plan-schema.ts";
import { readCommand } from "../../../host/cli/command.ts";
import { startHost } from "../../../host/host.ts";
import { type JsonObject, objectsAt } from "../../../plugins/azure-cloud/json.ts";
import { type PlanWires, tapPlan } from "../../kit/plan-wires.ts";
import { loadPluginsOnce, planDocumentOf } from "../../kit/plan.ts";
import { isThorough } from "../../kit/thorough.ts";
import { type GoldenCase, goldenCases, type RecordedStep, stepsOf } from "./cases.ts";
import { covering, differencesBetween } from "./covering.ts";
import { GoldenCluster, kindOf } from "./golden-cluster.ts";
import { expected, same } from "./replay.ts";
import { snapshotOf } from "./snapshot.ts";
import { actOf } from "./steps.ts";
import { plannedWrites, writableState, writesBetween } from "./written.ts";

setDefaultTimeout(120_000);

/** A recorded cluster, with the command line of a host for it. */
interface Opened extends AsyncDisposable {
  readonly cluster: GoldenCluster;
  readonly flags: readonly string[];
  /** The command line of a plan, by way of the proxies. */
  readonly planFlags: readonly string[];
  readonly wires: PlanWires;
}

/** Bun sends at most 256 requests at a time per process, and each host keeps a dozen watches open. */
const maxOpened = 8;
let openedNow = 0;
const waiting: (() => void)[] = [];

/** Resolves once fewer than `maxOpened` clusters are open; the caller passes its place on when it has closed its own. */
async function place(): Promise<() => void> {
  if (openedNow < maxOpened) openedNow += 1;
  else await new Promise<void>((resolve) => void waiting.push(resolve));
  return () => {
    const next = waiting.shift();
    if (next === undefined) openedNow -= 1;
    else next();
  };
}

async function open(golden: GoldenCase, state?: RecordedStep): Promise<Opened> {
  await using stack = new AsyncDisposableStack();
  stack.defer(await place());
  const cluster = stack.use(await GoldenCluster.open(golden, state));
  const folder = await mkdtemp(join(tmpdir(), "golden-plan-"));
  stack.defer(() => rm(folder, { recursive: true }));
  const wires = stack.use(await tapPlan({ api: cluster.cluster.api, simulator: cluster.simulator }, folder));
  const [kubeconfig, config] = [join(folder, "kubeconfig"), join(folder, "cloud-config.json")];
  const tapped = join(folder, "tapped-cloud-config.json");
  await writeFile(kubeconfig, cluster.cluster.api.kubeconfig("admin"));
  await writeFile(config, JSON.stringify(cluster.cloudConfig()));
  await writeFile(tapped, JSON.stringify({ ...cluster.cloudConfig(), ...wires.arm }));
  const decisions = [
    `--cluster-name=${golden.clusterName}`,
    "--leader-elect=false",
    "--secure-port=0",
    // Several cases start at once in this process.
    "--plugin-init-timeout=100s",
    ...(kindOf(golden) === "routes"
      ? ["--controllers=node-route-controller", "--allocate-node-cidrs", `--cluster-cidr=${golden.clusterCIDR ?? ""}`]
      : ["--controllers=service-lb-controller", "--configure-cloud-routes=false"]),
  ];
  const flags = [`--kubeconfig=${kubeconfig}`, `--cloud-config=${config}`, ...decisions];
  const planFlags = [`--kubeconfig=${wires.kubeconfig}`, `--cloud-config=${tapped}`, ...decisions];
  const opened = stack.move();
  return { cluster, flags, planFlags, wires, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}

const surroundings = (print: (text: string) => void, complain: (text: string) => void) => ({
  environment: {},
  stdout: print,
  stderr: complain,
  width: 100,
  loadPlugins: loadPluginsOnce,
});

/** Every plan here is seen to send reads alone, on both wires. A host that runs beside it has its own connections. */
async function planOf(
  { cluster, planFlags, wires }: Opened,
  beside: "nothing" | "a host" = "nothing",
): Promise<PlanDocument> {
  const before = cluster.simulator.log.length;
  const document = await planDocumentOf(planFlags);
  const { arm, kubernetes, refused } = wires.drain();
  expect(refused).toEqual([]);
  expect(kubernetes.length).toBeGreaterThan(0);
  // Nothing went past the proxy.
  if (beside === "nothing") expect(cluster.simulator.log.length - before).toBe(arm.length);
  return document;
}

/** Runs a host with the flags of the plan. */
async function apply({ flags }: Opened): Promise<AsyncDisposable> {
  const complaints: string[] = [];
  const input = await readCommand(
    flags,
    surroundings(
      () => undefined,
      (text) => complaints.push(text),
    ),
  );
  if ("status" in input) throw new Error(complaints.join(""));
  const host = await startHost({ ...input, writeLog: () => undefined });
  return {
    async [Symbol.asyncDispose]() {
      host.stop();
      await host.finished;
    },
  };
}

/** A state that ours would leave as it is. */
const isOurs = (golden: GoldenCase, recorded: RecordedStep): boolean =>
  same(expected(golden, recorded).arm, snapshotOf(recorded).arm) &&
  !recorded.arm.some(hasIdleMembers) &&
  (recorded.events ?? []).every(({ type }) => type !== "Warning");

/** The Go provider leaves nodes in the pool of a family that no rule has any more. */
function hasIdleMembers({ properties }: JsonObject): boolean {
  if (!isObject(properties) || !("loadBalancingRules" in properties)) return false;
  const rules = JSON.stringify(properties["loadBalancingRules"]).toLowerCase();
  return objectsAt(properties, "backendAddressPools").some(
    ({ id, properties: pool }) =>
      isObject(pool) &&
      objectsAt(pool, "backendIPConfigurations").length > 0 &&
      !rules.includes(`${String(id).toLowerCase()}"`),
  );
}

/** The Go provider has no condition: a Service whose settings do not apply gets ours. */
const isCondition = ({ fields }: { readonly fields: readonly { readonly path: string }[] }): boolean =>
  fields.every(({ path }) => path.startsWith("status.conditions[LoadBalancerReady]."));

/** Azure refuses a write of the case, which no plan can know: a host then writes less than was planned. */
const refusedByAzure: ReadonlySet<string> = new Set(["missing-prefix"]);

const hasFailedSync = ({ cluster }: Opened): boolean =>
  cluster.cluster.api.list(kinds.Event).some(({ reason }) => reason === "SyncLoadBalancerFailed");

const idsOf = (writes: readonly { readonly resource: string }[]): readonly string[] =>
  writes.map(({ resource }) => resource);

/** Several Services claim one address: the first to come gets it. */
function sharesAddress({ services = [] }: RecordedStep): boolean {
  const claims = services.flatMap(({ spec, metadata }) => [
    spec?.loadBalancerIP ?? "",
    metadata?.annotations?.["service.beta.kubernetes.io/azure-pip-name"] ?? "",
    metadata?.annotations?.["service.beta.kubernetes.io/azure-load-balancer-ipv4"] ?? "",
  ]);
  const named = claims.filter((claim) => claim !== "");
  return new Set(named).size < named.length;
}

const isEmpty = ({ services = [], nodes = [] }: RecordedStep): boolean => services.length + nodes.length === 0;

/** What the user of a case does in a step, while no manager runs. */
async function act(golden: GoldenCase, step: string, { cluster }: Opened, before?: RecordedStep): Promise<void> {
  const recorded = golden.steps[step];
  if (recorded === undefined) throw new Error(`case "${golden.case}" has no step "${step}"`);
  if (kindOf(golden) === "services" && step === "created")
    for (const service of recorded.services ?? []) cluster.createService(service);
  else await actOf(kindOf(golden), step)(cluster, recorded, before);
}

/** States that the Go provider left, where ours would leave them as well. */
export function describeAdoptedPlans(): void {
  const adopted = plannedSteps.filter(({ golden, recorded }) => !isEmpty(recorded) && isOurs(golden, recorded));
  const chosen = isThorough ? adopted : covering(adopted, ({ golden, recorded }) => featuresOf({ golden, recorded }));
  describe("the plan of a recorded case", () => {
    for (const { golden, step, recorded } of chosen)
      test.concurrent(`${golden.case}, ${step}: has no changes for what the Go provider left`, async () => {
        await using opened = await open(golden, recorded);
        const { complete, changes, failures } = await planOf(opened);
        expect({ complete, failures }).toEqual({ complete: true, failures: [] });
        // Nodes are seeded without the conditions that the routes controller left.
        const compared = changes.filter(({ system }) => kindOf(golden) === "services" || system === "cloud");
        expect(compared.filter((change) => !isCondition(change))).toEqual([]);
        expect(opened.cluster.armWrites()).toEqual([]);
      });
  });
}

/** The given steps, each from the state that the Go provider left at the end of the step before. */
export function describePlannedSteps(isGiven: (step: string) => boolean): void {
  const given = plannedSteps.filter(({ step }) => isGiven(step));
  const chosen = isThorough ? given : [...covering(given, featuresOf)];
  describe("the plan of a recorded case", () => {
    for (const [index, { golden, step, start, recorded }] of chosen.entries()) {
      // On a busy machine the first to come would not be the oldest.
      const testAlone = sharesAddress(recorded) ? test : test.concurrent;
      testAlone(`${golden.case}, ${step}: has the fields that a host then writes`, async () => {
        await using opened = await open(golden, start);
        await act(golden, step, opened, start);
        await comparePlanWithHost(golden, opened, step === "created" && (isThorough || index % 5 === 0) ? 2 : 1);
      });
    }
  });
}

interface PlannedStep {
  readonly golden: GoldenCase;
  readonly step: string;
  readonly start?: RecordedStep | undefined;
  readonly recorded: RecordedStep;
}

const plannedSteps: readonly PlannedStep[] = goldenCases.flatMap((golden) =>
  stepsOf(golden).map(([step, recorded], index, all) => ({ golden, step, start: all[index - 1]?.[1], recorded })),
);

/** What a user and a manager change in a step; without a start, all that there is at its end. */
function featuresOf({ golden, start, recorded }: Omit<PlannedStep, "step">): ReadonlySet<string> {
  const shown = ({ arm, services = [], events = [] }: RecordedStep): unknown => ({
    arm,
    services: services.map(({ metadata, spec, status }) => ({ ...metadata, uid: "", spec, status })),
    events: events.map(({ reason }) => reason),
  });
  return differencesBetween(
    start === undefined ? {} : shown(start),
    start === undefined ? { ...golden.cloudConfig, shown: shown(recorded) } : shown(recorded),
  );
}

/** Plans, which writes nothing, then runs a host, and finds what was planned. */
async function comparePlanWithHost(golden: GoldenCase, opened: Opened, plans: 1 | 2): Promise<void> {
  const initial = writableState(opened.cluster);
  const plan = await planOf(opened);
  if (plans === 2) expect(await planOf(opened)).toEqual(plan);
  expect(writesBetween(initial, writableState(opened.cluster))).toEqual([]);
  await using _ = await apply(opened);
  // The plan and what is written, side by side.
  const compared = () => {
    const written = writesBetween(initial, writableState(opened.cluster));
    return { planned: plannedWrites(plan.changes, written), written };
  };
  const isWritten = ({ planned, written } = compared()): boolean => same(planned, written);
  if (refusedByAzure.has(golden.case)) {
    // The host reports the refusal once it has done whatever else it could.
    await eventually("the host reports the refusal", () => hasFailedSync(opened), 60_000);
    const { planned, written } = compared();
    return expect(idsOf(planned)).toEqual(expect.arrayContaining(idsOf(written)));
  }
  await eventually("what was planned is written", () => isWritten(), 60_000).catch(() => undefined);
  const { planned, written } = compared();
  expect(written).toEqual(planned);
  const after = await planOf(opened, "a host");
  expect(after.changes).toEqual([]);
  expect(after.complete).toBe(plan.complete);
  // Not only in passing: a plan without the last writes equals what is written before them.
  const last = compared();
  expect(last.written).toEqual(last.planned);
}
