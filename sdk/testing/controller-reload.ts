import type { CloudCallRecord } from "./cloud-calls.ts";
import { type ConformanceTest, eventually, giveItAChance, must, settled } from "./conformance.ts";
import { type Running, Stage, type Suite } from "./controller-stage.ts";
import type { ApiWrite } from "./recording.ts";

/** Where a reload finds the controller. */
const moments = ["asks the cloud", "changes something at the cloud", "writes to Kubernetes"] as const;
type Moment = (typeof moments)[number];

/**
 * The promises about a reload in the midst of work. Each is held against a day without a reload on a cluster of its own:
 * what is done there must be done here as well, by one generation or the other.
 */
export function midWorkConformance(suite: Suite): readonly ConformanceTest[] {
  return moments.map((moment) => ({
    name: `reloaded while it ${moment}, it loses nothing and does nothing twice`,
    async run() {
      const wanted = await undisturbed(suite);
      await using stage = await Stage.open(suite);
      await survives(stage, moment, wanted);
    },
  }));
}

/** What the controller does of one round of work. */
interface Done {
  readonly written: readonly ApiWrite[];
  readonly changes: readonly CloudCallRecord[];
}

async function undisturbed(suite: Suite): Promise<Done> {
  await using stage = await Stage.open(suite);
  const running = await stage.run();
  await stage.work();
  await eventually("it asks for or writes something", () => stage.acts(running), suite.limitMs);
  await settled(() => stage.deeds(running.record), suite.limitMs);
  running.abort();
  await running.end();
  return { written: running.record.written, changes: stage.cloudChanges() };
}

async function survives(stage: Stage, moment: Moment, wanted: Done): Promise<void> {
  const { limitMs } = stage.suite;
  const first = await stage.run();
  const hold = holdAt(stage, first, moment);
  await stage.work();
  const began = performance.now();
  // A controller that never does this is reloaded when it has come to rest.
  await eventually(
    "it is in the midst of its work",
    () => hold.waiting > 0 || performance.now() - began > 500,
    limitMs,
  );
  first.abort();
  await giveItAChance();
  hold.release();
  await first.end();
  const second = await stage.run();
  await settled(() => stage.deeds(second.record), limitMs);
  second.abort();
  await second.end();
  compare({ written: [...first.record.written, ...second.record.written], changes: stage.cloudChanges() }, wanted);
  const before = new Set(first.record.written.map(wordsOf));
  const again = second.record.written.map(wordsOf).find((words) => before.has(words));
  must(again === undefined, `the generation before had written this already: ${again}`);
}

function holdAt(stage: Stage, { record }: Running, moment: Moment): { readonly waiting: number; release(): void } {
  if (moment === "asks the cloud") return stage.holdCloud("questions");
  if (moment === "changes something at the cloud") return stage.holdCloud("changes");
  const gate = Promise.withResolvers<void>();
  let waiting = 0;
  record.beforeWrites(() => {
    waiting++;
    return gate.promise;
  });
  return {
    get waiting() {
      return waiting;
    },
    release: () => gate.resolve(),
  };
}

function compare(done: Done, wanted: Done): void {
  const writes = new Set(done.written.map(placeOf));
  const lost = wanted.written.map(placeOf).find((place) => !writes.has(place));
  must(lost === undefined, `after the reload this was never written: ${lost}`);
  const changes = new Set(done.changes.map(callOf));
  const forgotten = wanted.changes.map(callOf).find((call) => !changes.has(call));
  must(forgotten === undefined, `after the reload the cloud was never asked for this: ${forgotten}`);
  for (const call of changes) {
    // To ensure once more what is there is allowed: a cloud that finds all as wanted writes nothing.
    if (/^(ensure|update)/.test(call)) continue;
    const times = (of: Done): number => of.changes.filter((change) => callOf(change) === call).length;
    must(times(done) <= Math.max(1, times(wanted)), `the cloud was asked for this ${times(done)} times: ${call}`);
  }
}

const placeOf = ({ verb, resource, target }: ApiWrite): string => `${verb} ${resource} ${target}`;
const wordsOf = (write: ApiWrite): string => `${placeOf(write)} ${write.body}`;
/** Routes of one node are told apart by what they are for. */
const callOf = ({ method, target, args }: CloudCallRecord): string =>
  `${method} ${target}${method.endsWith("Route") ? ` ${JSON.stringify(args.find(isRoute))}` : ""}`;
const isRoute = (argument: unknown): boolean =>
  typeof argument === "object" && argument !== null && "destinationCIDR" in argument;
