import { type Clock, type Counter, type Gauge, type Logger, messageOf, type Metrics } from "cloud-controller-host/sdk";

import { Fifo } from "../../async/fifo.ts";
import { within } from "../../async/timeout.ts";
import { LogStream } from "../log/stream.ts";
import { AuditFile, type Rotation } from "./audit-file.ts";

/** Records that wait for a slow or full disk; beyond it new ones are dropped. */
const maxPendingCharacters = 4 * 1024 * 1024;
const retryMs = 1_000;
const warnEveryMs = 60_000;

export interface AuditLogOptions {
  /** `-` is stdout. */
  readonly path: string;
  readonly rotation: Rotation;
  readonly clock: Clock;
  readonly log: Logger;
  /** For the metrics of a file. */
  readonly metrics?: Metrics;
}

/** A destination of records, one line each. It never throws and keeps no writer waiting. */
export interface AuditLog {
  write(line: string): void;
  /** Resolves once every record is written, or after `limitMs`. */
  flush(limitMs: number): Promise<void>;
}

export const openAuditLog = (options: AuditLogOptions): AuditLog =>
  options.path === "-" ? stdoutAuditLog() : new FileAuditLog(options);

const lostLine = (lost: number): string => JSON.stringify({ lostRecords: lost });

function stdoutAuditLog(): AuditLog {
  const stream = new LogStream(process.stdout, lostLine);
  return { write: (line) => stream.write(`${line}\n`), flush: (limitMs) => stream.flush(limitMs) };
}

/** Records wait in memory while the file cannot be written. Those that do not fit are counted in the file. */
class FileAuditLog implements AuditLog {
  readonly #options: AuditLogOptions;
  readonly #file: AuditFile;
  readonly #pending = new Fifo<string>();
  readonly #waiting: Gauge | undefined;
  readonly #allLost: Counter | undefined;
  #pendingCharacters = 0;
  /** Since the last record that did fit. */
  #lost = 0;
  #work: Promise<void> | undefined;
  #warnedMs = Number.NEGATIVE_INFINITY;
  /** Aborts at shutdown: ends the pause between attempts and allows one more. */
  readonly #ending = new AbortController();

  constructor(options: AuditLogOptions) {
    this.#options = options;
    this.#waiting = options.metrics?.gauge({
      name: "host_audit_log_waiting_records",
      help: "Records in memory that wait for the file of the audit log.",
    });
    this.#allLost = options.metrics?.counter({
      name: "host_audit_log_lost_records_total",
      help: "Records that the audit log does not have, because its file could not be written for too long.",
    });
    this.#file = new AuditFile({ ...options, warn: (problem, error) => this.#warn(problem, error) });
  }

  write(line: string): void {
    if (this.#pendingCharacters + line.length > maxPendingCharacters) {
      this.#lost += 1;
      this.#allLost?.inc();
      return;
    }
    if (this.#lost > 0) this.#push(lostLine(this.#lost));
    this.#lost = 0;
    this.#push(line);
    this.#work ??= this.#drain();
  }

  async flush(limitMs: number): Promise<void> {
    const { clock, path, log } = this.#options;
    this.#ending.abort();
    await within(clock, limitMs, this.#work ?? Promise.resolve());
    const missing = this.#pending.size + this.#lost;
    if (missing > 0) log.error("Audit log is incomplete", { path, missingRecords: missing });
    await within(
      clock,
      limitMs,
      this.#file.close().catch(() => undefined),
    );
  }

  #push(line: string): void {
    this.#pending.push(line);
    this.#pendingCharacters += line.length;
    this.#waiting?.set(this.#pending.size);
  }

  /** Never rejects. */
  async #drain(): Promise<void> {
    const { clock } = this.#options;
    while (this.#pending.size > 0)
      try {
        await this.#file.open();
        await this.#writePending();
      } catch (error) {
        this.#warn("Failed to write to the audit log; keeping records in memory and trying again", error);
        if (this.#ending.signal.aborted) break;
        await clock.sleep(retryMs, this.#ending.signal);
      }
    this.#work = undefined;
  }

  async #writePending(): Promise<void> {
    for (let line = this.#pending.first; line !== undefined; line = this.#pending.first) {
      await this.#file.append(line);
      this.#pending.shift();
      this.#pendingCharacters -= line.length;
      this.#waiting?.set(this.#pending.size);
    }
  }

  /** At most once a minute: a full disk fails every attempt. */
  #warn(message: string, error?: unknown): void {
    const { clock, path, log } = this.#options;
    if (clock.monotonic() - this.#warnedMs < warnEveryMs) return;
    this.#warnedMs = clock.monotonic();
    log.warn(message, {
      path,
      ...(error !== undefined && { error: messageOf(error) }),
      waitingRecords: this.#pending.size,
    });
  }
}
