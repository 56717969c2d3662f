import type { Controller, ControllerPlugin } from "../plugin.ts";
import type { CloudCallRecord, CloudHold, CloudMethod } from "./cloud-calls.ts";
import { must, within } from "./conformance.ts";
import type { ControllerHarness, ControllerWorld, TimerWatch } from "./controller-harness.ts";
import type { BringWork } from "./controller-work.ts";
import { type MemoryCloud, memoryCloud } from "./memory-cloud.ts";
import { isWrite, recorded, type RecordedContext } from "./recording.ts";

export interface ControllerConformanceOptions {
  /** The plugin's own options; default: none given. */
  readonly own?: unknown;
  /** What makes the plugin work. The default knows nodes and Services. */
  readonly work?: BringWork;
  /** In how many real milliseconds the controller must have started, worked or drained. Default 10000. */
  readonly limitMs?: number;
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

/** One world with a cloud, and a plugin that is brought on stage in it as often as a test likes. */
export class Stage implements AsyncDisposable {
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

  static async open(suite: Suite): Promise<Stage> {
    const stack = new AsyncDisposableStack();
    const world = stack.use(await suite.harness.open());
    return new Stage(suite, world, memoryCloud(), stack);
  }

  /** Constructs and initialises the plugin in a new generation. */
  async init(): Promise<Performance> {
    const { plugin, own, limitMs } = this.suite;
    const bound = plugin.bind(own);
    must(bound.ok, "it refuses its options");
    const generation = this.#stack.use(this.world.generation(plugin));
    const record = recorded(generation.context);
    const { timers } = generation;
    const inside: TimerWatch["inside"] = (work) => (timers === undefined ? work() : timers.inside(work));
    const init = bound.value(this.world.config, this.memory.cloud);
    const outcome = await within(
      limitMs,
      "init must end",
      inside(() => Promise.try(init, record.context)),
    );
    must(!("skipped" in outcome), `it was skipped: ${"skipped" in outcome ? outcome.skipped : ""}`);
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

  async run(): Promise<Running> {
    const performance = await this.init();
    const aborter = new AbortController();
    const run = performance.begin(aborter.signal);
    let ended = false;
    const end = (): void => void (ended = true);
    run.then(end, end);
    const { limitMs } = this.suite;
    return {
      ...performance,
      hasEnded: () => ended,
      abort: () => aborter.abort(),
      end: () => within(limitMs, "run must resolve after its signal aborted", run),
    };
  }

  /** Holds calls of the cloud from now on: those that only ask, or those that change something. */
  holdCloud(which: "questions" | "changes"): CloudHold {
    const methods = cloudMethods.filter((method) => cloudWrites.has(method) === (which === "changes"));
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

  /** What has been changed at the cloud, one entry a call that succeeded or is under way. */
  cloudChanges(): readonly CloudCallRecord[] {
    return this.memory.calls.filter(({ method }) => cloudWrites.has(method));
  }

  /** Whether it has done anything beyond watching: asked the cloud, or written. */
  acts({ record }: Performance): boolean {
    return this.memory.calls.length > 0 || record.uses.some(isWrite);
  }

  /** Counts all that the controller does to the world, the cloud included. */
  deeds(record: RecordedContext): number {
    return record.uses.filter(isWrite).length + this.cloudChanges().length;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

export interface Performance {
  readonly controller: Controller;
  readonly record: RecordedContext;
  /** Calls `run`. */
  begin(signal: AbortSignal): Promise<void>;
  /** How much would still happen by itself: sleeps on its clock, and timers that it has set past it. */
  leftovers(): { readonly sleeps: number; readonly timers: number };
}
export interface Running extends Performance {
  hasEnded(): boolean;
  abort(): void;
  end(): Promise<void>;
}
