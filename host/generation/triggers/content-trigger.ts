import { type Clock, isAborted, type Logger, messageOf } from "cloud-controller-host/sdk";

import { WakeUp } from "../../async/wake-up.ts";
import { hashOf } from "./cloud-config.ts";
import type { ConfigSource, ReadableSource } from "./config-source.ts";

/** A pause without further hints before content is read, and between the two reads that must agree. */
const settleMs = 250;
/** Content that keeps changing for longer is reported as such. */
const settleLimitMs = 30_000;
/** Reads without a hint, in case one was lost. */
const pollMs = 5_000;

/** Settled content of the source: its text, or the reason why it could not be read. */
export type Content = { readonly text: string } | { readonly unreadable: string };

export interface ContentTriggerOptions {
  readonly source: ConfigSource;
  readonly clock: Clock;
  readonly log: Logger;
  /** Hash of the content that was last taken; only a change from it is reported. */
  readonly known: string | undefined;
  changed(content: Content): void;
}

/**
 * Watches a source by content until the signal aborts. Bursts of hints count once; content is taken only when two
 * reads a pause apart agree and nothing was written in between, so a half-written file is read again; rewriting the
 * same bytes, or a resync, changes nothing. A source that vanishes is reported once, and its return is noticed.
 */
export async function watchContent(options: ContentTriggerOptions, signal: AbortSignal): Promise<void> {
  const { source, clock, log } = options;
  const hints = new WakeUp();
  const watcher = source.watch(() => hints.notify());
  // What was written after `known` was read and before the watch began has given no hint.
  hints.notify();
  let known = options.known;
  try {
    while (!signal.aborted) {
      await hints.wait(clock, pollMs, signal);
      watcher.rearm();
      const content = await settled(options, known, hints, signal);
      if (content === undefined) continue;
      known = fingerprintOf(content);
      log.debug(2, "The content of the source changed", { source: source.description, fingerprint: known });
      options.changed(content);
    }
  } finally {
    watcher.close();
  }
}

/**
 * The settled content of the source; for triggers that do not watch, such as SIGHUP. With a `first` reading, the pause
 * between the two readings has begun with that.
 */
export async function settledContent(
  source: ReadableSource,
  clock: Clock,
  signal: AbortSignal,
  first?: Promise<Reading>,
): Promise<Content> {
  const content = await settled({ source, clock }, undefined, new WakeUp(), signal, first);
  return content ?? { unreadable: `${source.description}: the process is stopping` };
}

/**
 * The content when two reads in a row agree, or undefined when it is what is known. The pause between them may be of any
 * length, as a stopped process resumes at the second read; the version shows whether the source was written meanwhile.
 */
async function settled(
  { source, clock }: { readonly source: ReadableSource; readonly clock: Clock },
  known: string | undefined,
  hints: WakeUp,
  signal: AbortSignal,
  first?: Promise<Reading>,
): Promise<Content | undefined> {
  const began = clock.monotonic();
  let before = await (first ?? readOnce(source, clock));
  while (!signal.aborted) {
    if (before.fingerprint === known && !hints.take()) return undefined;
    await clock.sleep(settleMs - (clock.monotonic() - before.endedMs), signal);
    const now = await readOnce(source, clock);
    if (!hints.take() && now.fingerprint === before.fingerprint && now.version === before.version)
      return now.fingerprint === known || signal.aborted ? undefined : now.content;
    before = now;
    if (clock.monotonic() - began <= settleLimitMs) continue;
    const content = { unreadable: `${source.description}: keeps changing; write it once and leave it` };
    return fingerprintOf(content) === known ? undefined : content;
  }
  return undefined;
}

const fingerprintOf = (content: Content): string =>
  "text" in content ? hashOf(content.text) : `unreadable: ${content.unreadable}`;

export interface Reading {
  readonly content: Content;
  /** On the monotonic clock. */
  readonly endedMs: number;
  readonly fingerprint: string;
  /** Taken before the content: equal versions of two readings mean that neither was written between them. */
  readonly version: string | undefined;
}

/** Never rejects. */
export async function readOnce(source: ReadableSource, clock: Clock): Promise<Reading> {
  const version = await source.version?.();
  const content = await contentOf(source);
  return { content, fingerprint: fingerprintOf(content), version, endedMs: clock.monotonic() };
}

async function contentOf(source: ReadableSource): Promise<Content> {
  try {
    return { text: await source.read() };
  } catch (error) {
    return { unreadable: isAborted(error) ? "the read was aborted" : messageOf(error) };
  }
}
