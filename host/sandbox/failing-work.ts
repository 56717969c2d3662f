import {
  type ControllerContext,
  type ControllerPlugin,
  isAborted,
  messageOf,
  retryAfterOf,
  visible,
} from "cloud-controller-host/sdk";

import { shortened } from "../process/log/fields.ts";

/** Maximum number of lines, and of characters of a key or an error: a plugin may throw anything, for each of its keys. */
const maxLines = 20;
const maxText = 2_000;

/** A key whose latest attempt has failed. */
interface FailedKey {
  readonly controller: string;
  readonly key: string;
  readonly error: string;
}

/** One line that does not control a terminal. */
const shown = (text: string): string => visible(shortened(text, maxText)).replaceAll("\n", " ");

/** Describes where an error comes from; empty for one that has no line in a plugin. */
export type Origin = (error: unknown) => string;

/**
 * The keys of work queues that have failed and not succeeded since, across reloads, and the errors that no code has
 * handled. A queue retries a failed key, so that the controller keeps running and no step of a check fails. A
 * `RetryAfterError` is a request to wait, not a failure.
 */
export class FailingWork {
  readonly #failed = new Map<string, FailedKey>();
  /** Errors that no code has handled. They have no key whose success would end them. */
  readonly #unhandled = new Set<string>();

  get isEmpty(): boolean {
    return this.#failed.size === 0 && this.#unhandled.size === 0;
  }

  /** One line per controller and error, with the first key that has it, and the number of those without a line. */
  get lines(): readonly string[] {
    const lines = [...this.byCause.values()];
    const more = this.#unhandled.size + this.#causes.size - lines.length;
    return more > 0 ? [...lines, `and ${more} more errors`] : lines;
  }

  /** The lines by controller and error, which stay the same as long as they last. */
  get byCause(): ReadonlyMap<string, string> {
    const lines = [...this.#unhandled].map((error): [string, string] => [error, `unhandled error: ${error}`]);
    for (const [cause, [first, ...others]] of this.#causes) {
      const more = others.length === 0 ? "" : ` and ${others.length} more`;
      if (first !== undefined)
        lines.push([cause, `${first.controller} cannot sync "${shown(first.key)}"${more}: ${first.error}`]);
    }
    return new Map(lines.slice(0, maxLines));
  }

  get #causes(): ReadonlyMap<string, readonly FailedKey[]> {
    return Map.groupBy(this.#failed.values(), ({ controller, error }) => `${controller}\n${error}`);
  }

  /** Takes a rejection or an exception that no code has handled. */
  unhandled(error: unknown, originOf: Origin): void {
    if (this.#unhandled.size < maxLines) this.#unhandled.add(`${shown(messageOf(error))}${originOf(error)}`);
  }

  /** The same controller, whose queues report here. */
  watch(plugin: ControllerPlugin, originOf: Origin): ControllerPlugin {
    return {
      ...plugin,
      bind: (own) => {
        const bound = plugin.bind(own);
        if (!bound.ok) return bound;
        const value: typeof bound.value = (config, cloud) => {
          const init = bound.value(config, cloud);
          return (context) => init(this.#watched(plugin.name, context, originOf));
        };
        return { ...bound, value };
      },
    };
  }

  #watched(controller: string, context: ControllerContext, originOf: Origin): ControllerContext {
    return {
      ...context,
      workqueue: (name, options) => {
        const queue = context.workqueue(name, options);
        const process = queue.process.bind(queue);
        queue.process = (given) =>
          process({ ...given, sync: (key) => this.#sync({ controller, queue: name, key }, given, originOf) });
        return queue;
      },
    };
  }

  async #sync(
    { controller, queue, key }: { readonly controller: string; readonly queue: string; readonly key: string },
    { sync, signal }: { readonly sync: (key: string) => Promise<void>; readonly signal: AbortSignal },
    originOf: Origin,
  ): Promise<void> {
    const id = `${controller}\n${queue}\n${key}`;
    try {
      await sync(key);
      this.#failed.delete(id);
    } catch (error) {
      const isInterrupted = signal.aborted && isAborted(error);
      if (!isInterrupted && retryAfterOf(error) === undefined)
        this.#failed.set(id, { controller, key, error: `${shown(messageOf(error))}${originOf(error)}` });
      throw error;
    }
  }
}
