import { constants } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, extname, join } from "node:path";

import { type Clock, CodedError } from "cloud-controller-host/sdk";

/** The rotation flags of kube-apiserver; 0 means no limit. */
export interface Rotation {
  readonly maxAgeDays: number;
  readonly maxBackups: number;
  readonly maxMegabytes: number;
}

export interface AuditFileOptions {
  readonly path: string;
  readonly rotation: Rotation;
  readonly clock: Pick<Clock, "now">;
  /** Reports a failure that lost no record. */
  readonly warn: (problem: string, error?: unknown) => void;
}

interface OpenFile {
  readonly handle: FileHandle;
  readonly inode: number;
  readonly isRegular: boolean;
  bytes: number;
}

const megabyte = 1024 * 1024;
const dayMs = 24 * 3_600_000;
/** A named pipe without a reader is an error, in place of a wait. */
const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK;

/** A file of lines that is rotated by size. Backups are named and removed as kube-apiserver's: `audit-<time>.log`. */
export class AuditFile {
  readonly #options: AuditFileOptions;
  #file: OpenFile | undefined;
  /** The last line has been written in part. */
  #isCut = false;

  constructor(options: AuditFileOptions) {
    this.#options = options;
  }

  /** Opens the file, also where another one or none has its path by now. */
  async open(): Promise<void> {
    const { path, warn } = this.#options;
    const found = await stat(path).catch(() => undefined);
    if (this.#file !== undefined && found?.ino === this.#file.inode) return;
    if (this.#file !== undefined) warn("Audit log was removed or replaced; opening it again");
    await this.close();
    await mkdir(dirname(path), { recursive: true });
    const handle = await open(path, flags, 0o600);
    const opened = await handle.stat();
    const isRegular = opened.isFile();
    this.#file = { handle, inode: opened.ino, isRegular, bytes: opened.size };
    this.#isCut = false;
    if (isRegular) await this.#prune();
  }

  async append(line: string): Promise<void> {
    const text = Buffer.from(`${this.#isCut ? "\n" : ""}${line}\n`);
    await this.#rotateFor(text.length);
    if (this.#file === undefined) await this.open();
    const file = this.#file;
    if (file === undefined) throw new CodedError("AuditIncomplete", "the file is not open");
    const { bytesWritten } = await file.handle.write(text);
    file.bytes += bytesWritten;
    this.#isCut = bytesWritten < text.length;
    if (this.#isCut)
      throw new CodedError("AuditIncomplete", `only ${bytesWritten} of ${text.length} bytes could be written`);
  }

  async close(): Promise<void> {
    const file = this.#file;
    this.#file = undefined;
    await file?.handle.close();
  }

  /** A file that cannot be renamed grows on: records are worth more than the limit. */
  async #rotateFor(bytes: number): Promise<void> {
    const { path, rotation, clock, warn } = this.#options;
    const limit = rotation.maxMegabytes * megabyte;
    const { isRegular = false, bytes: size = 0 } = this.#file ?? {};
    if (limit === 0 || !isRegular || size === 0 || size + bytes <= limit) return;
    try {
      await rename(path, backupPath(path, new Date(clock.now())));
    } catch (error) {
      return warn("Failed to rotate the audit log; it keeps growing", error);
    }
    await this.close();
  }

  async #prune(): Promise<void> {
    const { path, rotation, clock, warn } = this.#options;
    const oldestMs = rotation.maxAgeDays === 0 ? Number.NEGATIVE_INFINITY : clock.now() - rotation.maxAgeDays * dayMs;
    const kept = rotation.maxBackups === 0 ? Number.POSITIVE_INFINITY : rotation.maxBackups;
    try {
      const backups = (await readdir(dirname(path))).flatMap((name) => {
        const atMs = backupTime(path, name);
        return atMs === undefined ? [] : [{ name, atMs }];
      });
      const newestFirst = backups.toSorted((one, other) => other.atMs - one.atMs);
      const removed = newestFirst.filter(({ atMs }, index) => index >= kept || atMs < oldestMs);
      for (const { name } of removed) await rm(join(dirname(path), name), { force: true });
    } catch (error) {
      warn("Failed to remove old audit log files", error);
    }
  }
}

/** `audit-2026-11-22T21-49-24.123.log`, in UTC. Source: lumberjack, which kube-apiserver uses. */
function backupPath(path: string, at: Date): string {
  const extension = extname(path);
  const time = at.toISOString().replaceAll(":", "-").replace("Z", "");
  return join(dirname(path), `${basename(path, extension)}-${time}${extension}`);
}

function backupTime(path: string, name: string): number | undefined {
  const extension = extname(path);
  const prefix = `${basename(path, extension)}-`;
  if (!name.startsWith(prefix) || !name.endsWith(extension)) return undefined;
  const time = name.slice(prefix.length, name.length - extension.length);
  const [, day, hour, minute, second] = /^(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d\.\d{3})$/u.exec(time) ?? [];
  const atMs = Date.parse(`${day}T${hour}:${minute}:${second}Z`);
  return Number.isNaN(atMs) ? undefined : atMs;
}
