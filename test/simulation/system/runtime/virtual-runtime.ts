import { AsyncLocalStorage } from "node:async_hooks";

import { ProcessTime, randomOf, Timeline } from "../../timeline.ts";

interface Caller {
  readonly process: ProcessTime;
  /** Of the process; undefined: work that outlives generations. */
  readonly generation: number | undefined;
}

/** Whose code runs now, also after an `await`. */
const current = new AsyncLocalStorage<Caller>();

/** What the real process has begun and not ended, such as an import or a read of a file. Virtual time waits for it. */
const realWork = new Set<Promise<unknown>>();

/** Makes virtual time wait for a promise. */
export function awaited<T>(work: Promise<T>): Promise<T> {
  const ended = (): void => void realWork.delete(work);
  realWork.add(work);
  work.then(ended, ended);
  return work;
}

/**
 * The time, randomness and processes of one world. `install.ts` points the globals of the real process here, so that
 * product code, the Azure SDK and the simulated servers run in virtual time without a change.
 */
export class VirtualRuntime {
  readonly timeline: Timeline;
  readonly random = (): number => this.#random();
  #random: () => number;
  /** Code outside of any host: servers, kubelets and users. It never pauses or ends. */
  readonly outside: ProcessTime;
  /** Errors that no code has handled. */
  readonly unhandled: string[] = [];

  constructor(seed: number) {
    this.#random = randomOf(seed);
    let ties = 0;
    // Timers that are due together run in the order in which they were set, as in a real process.
    this.timeline = new Timeline(this.random, { ties: () => ties++, settled: () => realWork.size === 0 });
    this.outside = this.process();
  }

  /** Begins the seed's numbers again: how many of them a start takes may depend on what is cached. */
  reseed(seed: number): void {
    this.#random = randomOf(seed);
  }

  /** A process with clocks that may be off by `offsetMs`, and that run at a `rate`. */
  process(offsetMs = 0, rate = 1): ProcessTime {
    return new ProcessTime(this.timeline, { offsetMs, rate });
  }

  get caller(): ProcessTime {
    return current.getStore()?.process ?? this.outside;
  }

  /** The generation of the calling process whose code runs now. */
  get generation(): number | undefined {
    return current.getStore()?.generation;
  }

  /** Runs work as a process: its timers, requests and clocks are that process's. */
  as<T>(process: ProcessTime, work: () => T): T {
    return current.run({ process, generation: undefined }, work);
  }

  /** Runs work as a generation of the calling process. */
  asGeneration<T>(generation: number, work: () => T): T {
    return current.run({ process: this.caller, generation }, work);
  }

  now(): number {
    return this.caller.clock.now();
  }

  monotonic(): number {
    return this.caller.clock.monotonic();
  }

  /** Runs `callback` later as the process and generation that called this; the result cancels it. */
  after(ms: number, callback: () => void): () => void {
    const caller = current.getStore() ?? { process: this.outside, generation: undefined };
    const { process } = caller;
    return this.timeline.after(ms / process.rate, () => process.deliver(() => current.run(caller, callback)));
  }
}
