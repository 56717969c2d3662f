import type { CloudCallRecord } from "./cloud-calls.ts";
import { allowForUnwantedWork, type ConformanceTest, eventually, must, settled } from "./conformance.ts";
import { ControllerFixture, type RunningFixture, type Suite } from "./controller-fixture.ts";
import type { ApiWrite } from "./recording.ts";

/** The call in flight when the reload comes. */
const moments = ["reads from the cloud", "writes to the cloud", "writes to the API server"] as const;
type Moment = (typeof moments)[number];

/**
 * Tests of a reload during work. Each compares with a run without a reload in a cluster of its own: the same writes must
 * happen, in one generation or the other.
 */
export function midWorkConformance(suite: Suite): readonly ConformanceTest[] {
  return moments.map((moment) => ({
    name: `a reload while it ${moment} loses no write and repeats none`,
    async run() {
      const wanted = await undisturbed(suite);
      await using fixture = await ControllerFixture.open(suite);
      await survives(fixture, moment, wanted);
    },
  }));
}

/** The writes of one round of work. */
interface Writes {
  readonly written: readonly ApiWrite[];
  readonly changes: readonly CloudCallRecord[];
}

async function undisturbed(suite: Suite): Promise<Writes> {
  await using fixture = await ControllerFixture.open(suite);
  const running = await fixture.run();
  await fixture.work();
  await eventually("it calls the cloud or writes to the API server", () => fixture.hasActed(running), suite.limitMs);
  await settled(() => fixture.writeCount(running.record), suite.limitMs);
  running.abort();
  await running.end();
  return { written: running.record.written, changes: fixture.cloudWrites() };
}

async function survives(fixture: ControllerFixture, moment: Moment, wanted: Writes): Promise<void> {
  const { limitMs } = fixture.suite;
  const first = await fixture.run();
  const hold = holdAt(fixture, first, moment);
  await fixture.work();
  const began = performance.now();
  // A controller without such calls is reloaded when it is idle.
  await eventually("a call is in flight", () => hold.waiting > 0 || performance.now() - began > 500, limitMs);
  first.abort();
  await allowForUnwantedWork();
  hold.release();
  await first.end();
  const second = await fixture.run();
  await settled(() => fixture.writeCount(second.record), limitMs);
  second.abort();
  await second.end();
  compare({ written: [...first.record.written, ...second.record.written], changes: fixture.cloudWrites() }, wanted);
  const before = new Set(first.record.written.map(textOf));
  const again = second.record.written.map(textOf).find((text) => before.has(text));
  must(again === undefined, `the second generation repeated this write of the first: ${again}`);
}

function holdAt(
  fixture: ControllerFixture,
  { record }: RunningFixture,
  moment: Moment,
): { readonly waiting: number; release(): void } {
  if (moment === "reads from the cloud") return fixture.holdCloud("reads");
  if (moment === "writes to the cloud") return fixture.holdCloud("writes");
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

function compare(done: Writes, wanted: Writes): void {
  const writes = new Set(done.written.map(targetOf));
  const lost = wanted.written.map(targetOf).find((place) => !writes.has(place));
  must(lost === undefined, `after the reload this write is missing: ${lost}`);
  const changes = new Set(done.changes.map(callOf));
  const forgotten = wanted.changes.map(callOf).find((call) => !changes.has(call));
  must(forgotten === undefined, `after the reload this cloud call is missing: ${forgotten}`);
  for (const call of changes) {
    // Ensure and update may repeat: a cloud writes nothing when the state is already as wanted.
    if (/^(ensure|update)/.test(call)) continue;
    const times = (of: Writes): number => of.changes.filter((change) => callOf(change) === call).length;
    must(times(done) <= Math.max(1, times(wanted)), `this cloud call was made ${times(done)} times: ${call}`);
  }
}

const targetOf = ({ verb, resource, target }: ApiWrite): string => `${verb} ${resource} ${target}`;
const textOf = (write: ApiWrite): string => `${targetOf(write)} ${write.body}`;
/** Routes of one node differ by destination. */
const callOf = ({ method, target, args }: CloudCallRecord): string =>
  `${method} ${target}${method.endsWith("Route") ? ` ${JSON.stringify(args.find(isRoute))}` : ""}`;
const isRoute = (argument: unknown): boolean =>
  typeof argument === "object" && argument !== null && "destinationCIDR" in argument;
