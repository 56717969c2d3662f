import { ApiError } from "../errors.ts";
import { namePattern } from "../names.ts";
import { permissionVerbs } from "../permissions.ts";
import type { ControllerPlugin } from "../plugin.ts";
import {
  allowForUnwantedWork,
  type ConformanceTest,
  eventually,
  must,
  settled,
  within,
  withSkips,
} from "./conformance.ts";
import {
  type ControllerConformanceOptions,
  ControllerFixture,
  type RunningFixture,
  type Suite,
} from "./controller-fixture.ts";
import type { ControllerHarness } from "./controller-harness.ts";
import { midWorkConformance } from "./controller-reload.ts";
import { commonWork } from "./controller-work.ts";
import { describeUse, isPermitted, isWrite } from "./recording.ts";

/** Tests of the `Controller` contract, for any test runner. */
export function controllerConformance(
  plugin: ControllerPlugin,
  harness: ControllerHarness,
  options: ControllerConformanceOptions = {},
): readonly ConformanceTest[] {
  const suite: Suite = { plugin, harness, own: options.own, work: commonWork, limitMs: 4000, ...options };
  const inFixture = (name: string, check: (fixture: ControllerFixture) => Promise<void>): ConformanceTest => ({
    name,
    async run() {
      await using fixture = await ControllerFixture.open(suite);
      await check(fixture);
    },
  });
  const tests = [
    ...declarations(plugin, options.own),
    inFixture("construct calls nothing", constructsQuietly),
    inFixture("init writes nothing, calls no cloud and starts no timer", initsQuietly),
    inFixture("runs until its signal aborts, and its check passes meanwhile", runsOn),
    inFixture("run resolves without writing when its signal is already aborted", stopsBeforeItBegan),
    inFixture("drains in time and leaves no timer behind", drains),
    inFixture("drains in time while all its writes fail", drainsInTrouble),
    inFixture("run resolves only after its calls in flight have ended", awaitsCallsInFlight),
    inFixture("writes nothing after run has resolved", staysSilent),
    inFixture("the next generation writes nothing where nothing has changed, and handles new work", runsAgain),
    ...midWorkConformance(suite),
    inFixture("declares every permission that it uses", namesItsPermissions),
  ];
  return withSkips(tests, options.skip);
}

const workHint = "(if it needs other objects than nodes and Services, create them in the option `work`)";
const acted = `it calls the cloud or writes to the API server ${workHint}`;

const knownVerbs: ReadonlySet<string> = new Set(permissionVerbs);

function declarations(plugin: ControllerPlugin, own: unknown): readonly ConformanceTest[] {
  return [
    {
      name: "declares name, client name and permissions",
      async run() {
        const names = [plugin.name, ...plugin.aliases];
        for (const name of names)
          must(namePattern.test(name), `the name "${name}" must be lower-case words joined by hyphens`);
        must(new Set(names).size === names.length, `name and aliases must differ: ${names.join(", ")}`);
        must(plugin.initContext.clientName !== "", "initContext.clientName is empty");
        must(plugin.permissions.length > 0, "permissions is empty: list the API verbs that the controller uses");
        for (const { resources, verbs } of plugin.permissions) {
          must(resources.length > 0 && !resources.includes("*"), "each permission must list its resources, without *");
          for (const verb of verbs) must(knownVerbs.has(verb), `unknown verb "${verb}" in permissions`);
        }
      },
    },
    {
      name: "accepts its options and rejects unknown ones",
      async run() {
        const good = plugin.bind(own);
        must(
          good.ok,
          `the options are invalid: ${good.ok ? "" : good.problems.join("; ")}; pass valid ones as \`own\``,
        );
        if (plugin.configSchema === undefined) return;
        const unknown = plugin.bind({ noSuchOption: true });
        must(!unknown.ok, "configSchema accepts unknown options: set additionalProperties to false");
        for (const [option, schema] of Object.entries(plugin.configSchema.properties))
          must(Boolean(schema.description), `option "${option}" needs a description, for --help`);
      },
    },
  ];
}

async function constructsQuietly(fixture: ControllerFixture): Promise<void> {
  const { suite, world, memory } = fixture;
  const bound = suite.plugin.bind(suite.own);
  must(bound.ok, "the options are invalid: pass valid ones as `own`");
  must(typeof bound.value(world.config, memory.cloud) === "function", "construct must return an init function");
  await allowForUnwantedWork();
  must(memory.calls.length === 0, `construct called the cloud: ${memory.calls[0]?.method}`);
}

async function initsQuietly(fixture: ControllerFixture): Promise<void> {
  await fixture.work();
  const { record } = await fixture.init();
  await allowForUnwantedWork();
  const written = record.uses.find(isWrite);
  must(written === undefined, `init wrote: ${written?.verb} ${written?.resource}`);
  must(fixture.memory.calls.length === 0, `init called the cloud: ${fixture.memory.calls[0]?.method}`);
  must(record.sleepers === 0, "init sleeps on the clock");
}

async function runsOn(fixture: ControllerFixture): Promise<void> {
  const running = await fixture.run();
  await fixture.work();
  await allowForUnwantedWork();
  must(!running.hasEnded(), "run() returned before its signal was aborted");
  await running.controller.check?.();
  running.abort();
  await running.end();
}

async function stopsBeforeItBegan(fixture: ControllerFixture): Promise<void> {
  await fixture.work();
  const initialized = await fixture.init();
  await within(
    fixture.suite.limitMs,
    "run must resolve when its signal has aborted",
    initialized.begin(AbortSignal.abort()),
  );
  must(fixture.writeCount(initialized.record) === 0, "it wrote although its signal was already aborted");
}

/** Limit in milliseconds of a drain with nothing in flight: pauses and backoffs must end at once. */
const promptMs = 2500;

async function drains(fixture: ControllerFixture): Promise<void> {
  const running = await fixture.run();
  await fixture.work();
  await eventually(acted, () => fixture.hasActed(running), fixture.suite.limitMs);
  await stop(running);
}

async function drainsInTrouble(fixture: ControllerFixture): Promise<void> {
  const running = await fixture.run();
  running.record.beforeWrites(() => Promise.reject(new ApiError(500, "InternalError", "injected failure")));
  await fixture.work();
  await eventually(
    `it writes to the API server ${workHint}`,
    () => running.record.uses.some(isWrite),
    fixture.suite.limitMs,
  );
  await allowForUnwantedWork();
  must(!running.hasEnded(), "a failed write ended run");
  await stop(running);
}

async function stop(running: RunningFixture): Promise<void> {
  running.abort();
  await within(promptMs, "with nothing in flight, run must resolve", running.end());
  const { sleeps, timers } = running.leftovers();
  must(sleeps === 0, `${sleeps} sleeps on the clock are pending after run has resolved`);
  must(timers === 0, `${timers} timers are pending after run has resolved`);
}

/** The blocked calls ignore their signal, like those of a cloud that must not leave a write half done. */
async function awaitsCallsInFlight(fixture: ControllerFixture): Promise<void> {
  const holds = [fixture.holdCloud("reads"), fixture.holdCloud("writes")];
  const waiting = (): boolean => holds.some((hold) => hold.waiting > 0);
  const running = await fixture.run();
  await fixture.work();
  await eventually(acted, () => waiting() || fixture.hasActed(running), fixture.suite.limitMs);
  running.abort();
  await allowForUnwantedWork();
  must(!running.hasEnded() || !waiting(), "run resolved while a cloud call was in flight");
  for (const hold of holds) hold.release();
  await running.end();
}

async function staysSilent(fixture: ControllerFixture): Promise<void> {
  const running = await fixture.run();
  await fixture.work();
  await eventually(acted, () => fixture.hasActed(running), fixture.suite.limitMs);
  running.abort();
  await running.end();
  const before = fixture.writeCount(running.record);
  await fixture.work();
  await allowForUnwantedWork();
  must(fixture.writeCount(running.record) === before, "it wrote after run had resolved");
}

async function runsAgain(fixture: ControllerFixture): Promise<void> {
  const { limitMs } = fixture.suite;
  const first = await fixture.run();
  await fixture.work();
  await eventually(acted, () => fixture.hasActed(first), limitMs);
  await settled(() => fixture.writeCount(first.record), limitMs);
  first.abort();
  await first.end();

  const second = await fixture.run();
  await settled(() => fixture.writeCount(second.record), limitMs);
  const rewritten = second.record.uses.find(isWrite);
  must(rewritten === undefined, `it wrote although nothing had changed: ${rewritten?.verb} ${rewritten?.resource}`);
  await fixture.work();
  await eventually(
    `the second generation handles new work ${workHint}`,
    () => second.record.uses.some(isWrite),
    limitMs,
  );
  second.abort();
  await second.end();
}

async function namesItsPermissions(fixture: ControllerFixture): Promise<void> {
  const running = await fixture.run();
  await fixture.work();
  await eventually(acted, () => fixture.hasActed(running), fixture.suite.limitMs);
  await settled(() => fixture.writeCount(running.record), fixture.suite.limitMs);
  running.abort();
  await running.end();
  const { permissions } = fixture.suite.plugin;
  const missing = running.record.uses.filter((use) => !isPermitted(permissions, use));
  const named = new Set(missing.map((use) => describeUse(permissions, use)));
  must(missing.length === 0, `permissions lacks ${[...named].join(", ")}`);
}
