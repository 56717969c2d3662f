import {
  type Clock,
  isRefusal,
  type LogFields,
  type Logger,
  messageOf,
  type ProcessOptions,
  retryAfterOf,
  type WorkQueue,
} from "cloud-controller-host/sdk";

/**
 * Controllers that have nothing under way and no key queued at so many looks in a row have done all that there is to do.
 * Looks are counted, not time: after a stall of the machine each of them lets others go first.
 */
const quietLooks = 12;
const lookMs = 25;
/** Of a key that fails: a read may have failed for a moment. */
const maxAttempts = 3;
const retryPauseMs = 200;

interface Problem {
  readonly reason: string;
  /** A known outcome, not a failure. */
  readonly isRefused: boolean;
}

/** Work of controllers under way, and failures. A plan is complete once they are idle and nothing failed. */
export class Activity {
  readonly #clock: Clock;
  readonly #queues: WorkQueue[] = [];
  /** The latest result of each subject that has not succeeded since. */
  readonly #problems = new Map<string, Problem>();
  #hasRecovered = false;
  #underWay = 0;
  #looks = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The failures that make the plan incomplete, each with what could not be planned. */
  get failures(): readonly string[] {
    return this.#reasons(false)
      .map(([subject, reason]) => `${subject}: ${reason}`)
      .toSorted();
  }

  /** Refusals, by key with the name of the queue: `service default/web`. */
  get refusals(): readonly (readonly [subject: string, reason: string])[] {
    return this.#reasons(true).toSorted(([one], [other]) => (one < other ? -1 : 1));
  }

  /** A failure that passed has left something in the plan, such as a condition that the next attempt took back. */
  get hasRecovered(): boolean {
    return this.#hasRecovered;
  }

  fail(subject: string, error: unknown): void {
    this.#problems.set(subject, { reason: messageOf(error), isRefused: false });
  }

  #reasons(refused: boolean): readonly (readonly [subject: string, reason: string])[] {
    return [...this.#problems].flatMap(([subject, { reason, isRefused }]) =>
      isRefused === refused ? [[subject, reason] as const] : [],
    );
  }

  /** Counts work until it settles. */
  async track<T>(work: () => Promise<T>): Promise<T> {
    this.#underWay += 1;
    try {
      return await work();
    } finally {
      this.#underWay -= 1;
      this.#looks = 0;
    }
  }

  /** A queue whose failing keys are tried three times, then reported. */
  queue(inner: WorkQueue): WorkQueue {
    this.#queues.push(inner);
    return {
      name: inner.name,
      get length() {
        return inner.length;
      },
      add: (key) => inner.add(key),
      addAfter: (key, delayMs) => inner.addAfter(key, delayMs),
      addRateLimited: (key) => inner.addRateLimited(key),
      forget: (key) => inner.forget(key),
      requeues: (key) => inner.requeues(key),
      get: () => inner.get(),
      done: (key) => inner.done(key),
      shutDown: () => inner.shutDown(),
      process: (options) =>
        inner.process({
          ...options,
          sync: (key) => this.track(() => this.#attempt(`${inner.name} ${key}`, key, options)),
        }),
    };
  }

  async #attempt(subject: string, key: string, options: ProcessOptions): Promise<void> {
    const { signal } = options;
    let hasFailed = this.#problems.get(subject)?.isRefused === false;
    for (let left = maxAttempts - 1; ; left -= 1)
      try {
        await options.sync(key);
        this.#hasRecovered ||= hasFailed;
        this.#problems.delete(subject);
        return;
      } catch (error) {
        // The time was over, or another controller has failed; what was waited for is named.
        if (signal.aborted) return retryAfterOf(error) === undefined ? undefined : this.fail(subject, error);
        const isRefused = isRefusal(error);
        hasFailed ||= !isRefused;
        if (left === 0) return void this.#problems.set(subject, { reason: messageOf(error), isRefused });
        await this.#clock.sleep(retryPauseMs, signal);
      }
  }

  /** Errors that controllers without a queue log are failures of the plan, too. */
  log(inner: Logger, subject = ""): Logger {
    return {
      info: (message, fields) => inner.info(message, fields),
      warn: (message, fields) => inner.warn(message, fields),
      debug: (level, message, fields) => inner.debug(level, message, fields),
      error: (message: string, fields?: LogFields) => {
        inner.error(message, fields);
        const error = fields?.["error"] ?? fields?.["reason"] ?? "failed";
        this.fail(subject === "" ? message : `${subject}: ${message}`, error);
      },
      with: (fields) => this.log(inner.with(fields), namedBy(fields, subject)),
    };
  }

  /** Resolves when nothing has been under way for a while; false when the signal aborts first. */
  async rests(signal: AbortSignal): Promise<boolean> {
    this.#looks = 0;
    while (!signal.aborted) {
      const isBusy = this.#underWay > 0 || this.#queues.some(({ length }) => length > 0);
      this.#looks = isBusy ? 0 : this.#looks + 1;
      if (this.#looks > quietLooks) return true;
      await this.#clock.sleep(lookMs, signal);
    }
    return false;
  }
}

const namedBy = (fields: LogFields, otherwise: string): string =>
  typeof fields["controller"] === "string" ? fields["controller"] : otherwise;
