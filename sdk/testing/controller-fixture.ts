import type { Controller, ControllerPlugin } from "../plugin.ts";
import { isObject } from "../values.ts";
import type { CloudCallRecord, CloudHold, CloudMethod } from "./cloud-calls.ts";
import { must, within } from "./conformance.ts";
import type { ControllerHarness, ControllerWorld, TimerWatch } from "./controller-harness.ts";
import type { CreateWork } from "./controller-work.ts";
import { type MemoryCloud, memoryCloud } from "./memory-cloud.ts";
import { isWrite, recorded, type RecordedContext } from "./recording.ts";

/** Options of `controllerConformance`. */
export interface ControllerConformanceOptions {
  /** The plugin's own options. */
  readonly own?: unknown;
  /** Creates the objects that the controller works on. Default: nodes and Services. */
  readonly work?: CreateWork;
  /** Time limit in milliseconds for start, work and drain. Default 4000, below the 5 s of `bun test`. */
  readonly limitMs?: number;
  /** Tests that do not apply, by name, each with the reason. */
  readonly skip?: Readonly<Record<string, string>>;
}

export type Suite = Required<Pick<ControllerConformanceOptions, "work" | "limitMs">> & {
  readonly plugin: ControllerPlugin;
  readonly harness: ControllerHarness;
  readonly own: unknown;
};

const cloudWrites: ReadonlySet<CloudMethod> = new Set<CloudMethod>([
  "ensureLoadBalancer",
  "updateLoadBalancer",
  "ensureLoadBalancerDeleted",
  "createRoute",
  "deleteRoute",
]);
const cloudMethods: readonly CloudMethod[] = [
  "instanceExists",
  "instanceShutdown",
  "instanceMetadata",
  "getLoadBalancer",
  "listRoutes",
  "nodeMasks",
  ...cloudWrites,
];

/** A cluster with a memory cloud, in which a test initializes and runs the plugin any number of times. */
export class ControllerFixture implements AsyncDisposable {
  readonly suite: Suite;
  readonly world: ControllerWorld;
  readonly memory: MemoryCloud;
  readonly #stack: AsyncDisposableStack;
  #rounds = 0;

  private constructor(suite: Suite, world: ControllerWorld, memory: MemoryCloud, stack: AsyncDisposableStack) {
    this.suite = suite;
    this.world = world;
    this.memory = memory;
    this.#stack = stack;
  }

  static async open(suite: Suite): Promise<ControllerFixture> {
    const stack = new AsyncDisposableStack();
    const world = stack.use(await suite.harness.open(suite.plugin));
    return new ControllerFixture(suite, world, memoryCloud(), stack);
  }

  /** Constructs and initializes the plugin in a new generation. */
  async init(): Promise<InitializedController> {
    const { plugin, own, limitMs } = this.suite;
    const bound = plugin.bind(own);
    must(bound.ok, "the options are invalid: pass valid ones as `own`");
    const generation = this.#stack.use(this.world.generation(plugin));
    const record = recorded(generation.context);
    const { timers } = generation;
    const inside: TimerWatch["inside"] = (work) => (timers === undefined ? work() : timers.inside(work));
    const init = bound.value(this.world.config, this.memory.cloud);
    const outcome = await within(
      limitMs,
      "init must return",
      inside(() => Promise.try(init, record.context)),
    );
    must(isOutcome(outcome), 'init must return { run(signal) } or skipped("reason")');
    must(
      !("skipped" in outcome),
      `the controller was skipped, and cannot be tested: ${"skipped" in outcome ? outcome.skipped : ""}`,
    );
    await within(limitMs, "informers must sync", generation.synced());
    return {
      controller: outcome,
      record,
      begin: (signal) => inside(() => outcome.run(signal)),
      leftovers: () => ({ sleeps: record.sleepers, timers: timers?.open ?? 0 }),
    };
  }

  work(): Promise<void> {
    return this.suite.work({ admin: this.world.admin, memory: this.memory, round: this.#rounds++ });
  }

  async run(): Promise<RunningFixture> {
    const initialized = await this.init();
    const aborter = new AbortController();
    const run = initialized.begin(aborter.signal);
    let ended = false;
    const end = (): void => void (ended = true);
    run.then(end, end);
    const { limitMs } = this.suite;
    return {
      ...initialized,
      hasEnded: () => ended,
      abort: () => aborter.abort(),
      end: () => within(limitMs, "run must resolve after its signal aborted", run),
    };
  }

  /** Blocks cloud calls from now on: reads or writes. */
  holdCloud(which: "reads" | "writes"): CloudHold {
    const methods = cloudMethods.filter((method) => cloudWrites.has(method) === (which === "writes"));
    const holds = methods.map((method) => this.memory.hold(method, { stubborn: true }));
    return {
      get waiting() {
        return holds.reduce((sum, hold) => sum + hold.waiting, 0);
      },
      release() {
        for (const hold of holds) hold.release();
      },
    };
  }

  /** Cloud writes, completed or in flight. */
  cloudWrites(): readonly CloudCallRecord[] {
    return this.memory.calls.filter(({ method }) => cloudWrites.has(method));
  }

  /** True when the controller has called the cloud or written to the API server. */
  hasActed({ record }: InitializedController): boolean {
    return this.memory.calls.length > 0 || record.uses.some(isWrite);
  }

  /** Number of writes to the API server and to the cloud. */
  writeCount(record: RecordedContext): number {
    return record.uses.filter(isWrite).length + this.cloudWrites().length;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

/** Checked for plugins that no type check has seen: `(context) => { run }` returns nothing. */
const isOutcome = (value: unknown): boolean =>
  isObject(value) && ("skipped" in value || typeof value["run"] === "function");

export interface InitializedController {
  readonly controller: Controller;
  readonly record: RecordedContext;
  /** Calls `run`. */
  begin(signal: AbortSignal): Promise<void>;
  /** Pending sleeps on the context's clock, and pending timers of the runtime. */
  leftovers(): { readonly sleeps: number; readonly timers: number };
}
export interface RunningFixture extends InitializedController {
  hasEnded(): boolean;
  abort(): void;
  end(): Promise<void>;
}
