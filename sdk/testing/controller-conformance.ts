import { ApiError } from "../errors.ts";
import { namePattern } from "../names.ts";
import type { ControllerPlugin } from "../plugin.ts";
import { type ConformanceTest, eventually, giveItAChance, must, settled, within } from "./conformance.ts";
import type { ControllerHarness } from "./controller-harness.ts";
import { midWorkConformance } from "./controller-reload.ts";
import { type ControllerConformanceOptions, type Running, Stage, type Suite } from "./controller-stage.ts";
import { commonWork } from "./controller-work.ts";
import { isPermitted, isWrite } from "./recording.ts";

/** The promises that every controller plugin must keep, as tests for any runner. */
export function controllerConformance(
  plugin: ControllerPlugin,
  harness: ControllerHarness,
  options: ControllerConformanceOptions = {},
): readonly ConformanceTest[] {
  const suite: Suite = { plugin, harness, own: options.own, work: commonWork, limitMs: 10_000, ...options };
  const inWorld = (name: string, check: (stage: Stage) => Promise<void>): ConformanceTest => ({
    name,
    async run() {
      await using stage = await Stage.open(suite);
      await check(stage);
    },
  });
  return [
    ...declarations(plugin, options.own),
    inWorld("touches nothing when it is constructed", constructsQuietly),
    inWorld("only registers in init", initsQuietly),
    inWorld("works until its signal aborts, and says meanwhile that it is healthy", runsOn),
    inWorld("stops at once when its signal has aborted before it began", stopsBeforeItBegan),
    inWorld("drains within its limit, and leaves no timer behind", drains),
    inWorld("drains within its limit while nothing that it writes is taken", drainsInTrouble),
    inWorld("does not resolve before the work in hand has ended", keepsTheLaw),
    inWorld("writes nothing once it has stopped", staysSilent),
    inWorld("runs again in the next generation, and writes nothing where nothing has changed", runsAgain),
    ...midWorkConformance(suite),
    inWorld("asks for every permission that it uses", namesItsPermissions),
  ];
}

const knownVerbs: ReadonlySet<string> = new Set(["get", "list", "watch", "create", "update", "patch", "delete"]);

function declarations(plugin: ControllerPlugin, own: unknown): readonly ConformanceTest[] {
  return [
    {
      name: "declares itself in full",
      async run() {
        const names = [plugin.name, ...plugin.aliases];
        for (const name of names) must(namePattern.test(name), `"${name}" is not lower-case words joined by hyphens`);
        must(new Set(names).size === names.length, `a name is there twice: ${names.join(", ")}`);
        must(plugin.initContext.clientName !== "", "initContext.clientName is empty");
        must(plugin.permissions.length > 0, "it names no permission, and so may do nothing");
        for (const { resources, verbs } of plugin.permissions) {
          must(resources.length > 0 && !resources.includes("*"), "a permission must name its resources");
          for (const verb of verbs) must(knownVerbs.has(verb), `"${verb}" is no verb that a permission may name`);
        }
      },
    },
    {
      name: "takes its own options, and refuses those that it does not know",
      async run() {
        const good = plugin.bind(own);
        must(good.ok, `it refuses its options: ${good.ok ? "" : good.problems.join("; ")}`);
        if (plugin.configSchema === undefined) return;
        const unknown = plugin.bind({ noSuchOption: true });
        must(!unknown.ok, "it takes an option that its schema does not have: set additionalProperties to false");
        for (const [option, schema] of Object.entries(plugin.configSchema.properties))
          must(Boolean(schema.description), `option "${option}" has no description, which is its help text`);
      },
    },
  ];
}

async function constructsQuietly(stage: Stage): Promise<void> {
  const { suite, world, memory } = stage;
  const bound = suite.plugin.bind(suite.own);
  must(bound.ok, "it refuses its options");
  must(typeof bound.value(world.config, memory.cloud) === "function", "construct must return an init function");
  await giveItAChance();
  must(memory.calls.length === 0, `constructed, it asked the cloud: ${memory.calls[0]?.method}`);
}

async function initsQuietly(stage: Stage): Promise<void> {
  await stage.work();
  const { record } = await stage.init();
  await giveItAChance();
  const written = record.uses.find(isWrite);
  must(written === undefined, `before run it wrote: ${written?.verb} ${written?.resource}`);
  must(stage.memory.calls.length === 0, `before run it asked the cloud: ${stage.memory.calls[0]?.method}`);
  must(record.sleepers === 0, "before run it sleeps on its clock");
}

async function runsOn(stage: Stage): Promise<void> {
  const running = await stage.run();
  await stage.work();
  await giveItAChance();
  must(!running.hasEnded(), "run ended unasked");
  await running.controller.check?.();
  running.abort();
  await running.end();
}

async function stopsBeforeItBegan(stage: Stage): Promise<void> {
  await stage.work();
  const performance = await stage.init();
  await within(
    stage.suite.limitMs,
    "run must resolve when its signal has aborted",
    performance.begin(AbortSignal.abort()),
  );
  must(stage.deeds(performance.record) === 0, "it wrote although it had been stopped before it began");
}

/** A drain that has nothing to wait for takes no longer, in real milliseconds: no pause and no backoff is sat out. */
const promptMs = 2500;

async function drains(stage: Stage): Promise<void> {
  const running = await stage.run();
  await stage.work();
  await eventually("it asks for or writes something", () => stage.acts(running), stage.suite.limitMs);
  await stop(running);
}

async function drainsInTrouble(stage: Stage): Promise<void> {
  const running = await stage.run();
  running.record.beforeWrites(() => Promise.reject(new ApiError(500, "InternalError", "made to fail")));
  await stage.work();
  await eventually("it writes something", () => running.record.uses.some(isWrite), stage.suite.limitMs);
  await giveItAChance();
  must(!running.hasEnded(), "a write that was not taken ended run");
  await stop(running);
}

async function stop(running: Running): Promise<void> {
  running.abort();
  await within(promptMs, "with nothing in hand that must be finished, run must resolve", running.end());
  const { sleeps, timers } = running.leftovers();
  must(sleeps === 0, `${sleeps} sleeps on its clock go on after run has resolved`);
  must(timers === 0, `${timers} timers that it has set go on after run has resolved`);
}

/** The calls do not heed their signal, as a cloud's do that must not leave its work half done. */
async function keepsTheLaw(stage: Stage): Promise<void> {
  const holds = [stage.holdCloud("questions"), stage.holdCloud("changes")];
  const waiting = (): boolean => holds.some((hold) => hold.waiting > 0);
  const running = await stage.run();
  await stage.work();
  await eventually("it begins something", () => waiting() || stage.acts(running), stage.suite.limitMs);
  running.abort();
  await giveItAChance();
  must(!running.hasEnded() || !waiting(), "run resolved while a call to the cloud was under way");
  for (const hold of holds) hold.release();
  await running.end();
}

async function staysSilent(stage: Stage): Promise<void> {
  const running = await stage.run();
  await stage.work();
  await eventually("it asks for or writes something", () => stage.acts(running), stage.suite.limitMs);
  running.abort();
  await running.end();
  const before = stage.deeds(running.record);
  await stage.work();
  await giveItAChance();
  must(stage.deeds(running.record) === before, "it wrote after run had resolved");
}

async function runsAgain(stage: Stage): Promise<void> {
  const { limitMs } = stage.suite;
  const first = await stage.run();
  await stage.work();
  await eventually("it asks for or writes something", () => stage.acts(first), limitMs);
  await settled(() => stage.deeds(first.record), limitMs);
  first.abort();
  await first.end();

  const second = await stage.run();
  await settled(() => stage.deeds(second.record), limitMs);
  const rewritten = second.record.uses.find(isWrite);
  must(rewritten === undefined, `what was as wanted was written again: ${rewritten?.verb} ${rewritten?.resource}`);
  await stage.work();
  await eventually("the second generation works as well", () => second.record.uses.some(isWrite), limitMs);
  second.abort();
  await second.end();
}

async function namesItsPermissions(stage: Stage): Promise<void> {
  const running = await stage.run();
  await stage.work();
  await eventually("it asks for or writes something", () => stage.acts(running), stage.suite.limitMs);
  await settled(() => stage.deeds(running.record), stage.suite.limitMs);
  running.abort();
  await running.end();
  const { permissions } = stage.suite.plugin;
  const missing = running.record.uses.filter((use) => !isPermitted(permissions, use));
  const named = new Set(missing.map(({ verb, resource }) => `${verb} ${resource}`));
  must(missing.length === 0, `it uses what it does not ask for in its permissions: ${[...named].join(", ")}`);
}
