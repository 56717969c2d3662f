import { type Clock, messageOf } from "cloud-controller-host/sdk";

/** Makes a plan; resolves with the members of the answer that it has, as JSON: `{"plan": …}`. */
export type MakePlan = (signal: AbortSignal) => Promise<string>;

/** A new plan is not made before the latest is so old: it costs reads, memory and processor time. */
const minAgeMs = 5_000;

interface Made {
  readonly madeAt: string;
  readonly seconds: number;
  readonly failure?: string;
  /** JSON, as it was made: a large plan is not read again for each page. */
  readonly plan?: string;
}

/** The latest plan, for all pages. One is made at a time, and only when a page asks for it. */
export class Plans implements AsyncDisposable {
  readonly #clock: Clock;
  readonly #make: MakePlan;
  readonly #stopping = new AbortController();
  #latest: Made | undefined;
  #endedAt = Number.NEGATIVE_INFINITY;
  #making: Promise<void> | undefined;
  #revision = 0;

  constructor(clock: Clock, make: MakePlan) {
    this.#clock = clock;
    this.#make = make;
  }

  /** Changes as a plan begins and as it ends. */
  get revision(): number {
    return this.#revision;
  }

  /** The answer as JSON. Begins a plan where there is none, and with `wantsNew` where the latest is not of now. */
  answer(wantsNew: boolean): string {
    const isDue = this.#latest === undefined || (wantsNew && this.#clock.monotonic() - this.#endedAt >= minAgeMs);
    if (isDue && this.#making === undefined && !this.#stopping.signal.aborted) {
      this.#revision += 1;
      this.#making = this.#run();
    }
    const { plan = "{}", ...about } = this.#latest ?? {};
    const head = JSON.stringify({ planning: this.#making !== undefined, ...about }).slice(0, -1);
    return plan === "{}" ? `${head}}` : `${head},${plan.slice(1)}`;
  }

  async #run(): Promise<void> {
    const began = this.#clock.monotonic();
    const result = await this.#make(this.#stopping.signal).then(
      (plan) => ({ plan }),
      (error: unknown) => ({ failure: messageOf(error) }),
    );
    this.#endedAt = this.#clock.monotonic();
    const seconds = Math.round((this.#endedAt - began) / 100) / 10;
    this.#latest = { madeAt: new Date(this.#clock.now()).toISOString(), seconds, ...result };
    this.#making = undefined;
    this.#revision += 1;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#making;
  }
}
