import { CodedError, type LogFields, type Logger } from "cloud-controller-host/sdk";

import { type Plain, plainFields, shownText } from "./fields.ts";
import { klogFields, klogHead, type Severity } from "./klog-format.ts";
import { LogStream } from "./stream.ts";

/** The process's own logger, whose verbosity may change while it runs. */
export interface HostLogger extends Logger {
  readonly verbosity: number;
  setVerbosity(level: number): void;
  /** Resolves once everything logged so far is written, or after `limitMs` (default 3 s). */
  flush(limitMs?: number): Promise<void>;
}

export interface LogOptions {
  /** `text` is klog's format on stderr, `json` one object per line on stdout. */
  readonly format: "text" | "json";
  readonly verbosity: number;
  /** `pattern=level,…`; the pattern (`*` and `?`) is matched against the controller's or component's name. */
  readonly vmodule?: string;
  /** The source of lines without `with({ controller })` or `with({ component })`. */
  readonly name?: string;
  /** Further fields of a line with an error, such as its origin. */
  readonly locate?: (error: Error) => LogFields;
  /** Receives whole lines, in place of the process's own streams. */
  readonly write?: (line: string) => void;
}

/** Stacks are shown from this verbosity on. */
const stackVerbosity = 4;

interface VmoduleRule {
  readonly pattern: RegExp;
  readonly level: number;
}

interface Entry {
  readonly severity: Severity;
  readonly level: number;
  readonly source: string;
  readonly message: string;
  readonly fields: readonly (readonly [string, Plain])[];
  readonly stack: string | undefined;
}

interface Core {
  verbosity: number;
  readonly rules: readonly VmoduleRule[];
  readonly locate: (error: Error) => LogFields;
  readonly emit: (entry: Entry) => void;
}

/** Creates the root logger. Throws `InvalidFlags` for a malformed `vmodule`. */
export function createLogger(options: LogOptions): HostLogger {
  const stream =
    options.write === undefined
      ? new LogStream(options.format === "text" ? process.stderr : process.stdout, lostLine(options.format))
      : undefined;
  const write = options.write ?? ((line: string): void => stream?.write(line));
  const core: Core = {
    verbosity: options.verbosity,
    rules: parseVmodule(options.vmodule ?? ""),
    locate: options.locate ?? (() => ({})),
    emit: options.format === "text" ? textEmitter(write) : jsonEmitter(write),
  };
  const root = child(core, options.name ?? "cloud-controller-manager", []);
  return {
    ...root,
    get verbosity() {
      return core.verbosity;
    },
    setVerbosity(level) {
      core.verbosity = level;
    },
    async flush(limitMs = 3_000) {
      await stream?.flush(limitMs);
    },
  };
}

function child(core: Core, source: string, bound: readonly (readonly [string, Plain])[]): Logger {
  const raised = core.rules.find(({ pattern }) => pattern.test(source))?.level ?? 0;
  const log = (severity: Severity, level: number, message: string, fields: LogFields = {}): void => {
    const { error } = fields;
    const stack = core.verbosity >= stackVerbosity && error instanceof Error ? shownText(error.stack ?? "") : undefined;
    core.emit({
      severity,
      level,
      source,
      message: shownText(message),
      fields: [...bound, ...plainFields(error instanceof Error ? { ...fields, ...core.locate(error) } : fields)],
      stack: stack === "" ? undefined : stack,
    });
  };
  return {
    info: (message, fields) => log("info", 0, message, fields),
    warn: (message, fields) => log("warn", 0, message, fields),
    error: (message, fields) => log("error", 0, message, fields),
    debug(level, message, fields) {
      if (core.verbosity >= level || raised >= level) log("info", level, message, fields);
    },
    with({ controller, component, ...fields }) {
      const named = controller ?? component;
      return child(core, typeof named === "string" ? named : source, [...bound, ...plainFields(fields)]);
    },
  };
}

const textEmitter =
  (write: (line: string) => void): Core["emit"] =>
  ({ severity, source, message, fields, stack }) => {
    const head = klogHead(severity, Date.now(), process.pid, source, message);
    const trace = stack === undefined ? "" : stack.replaceAll(/^/gm, "\t").concat("\n");
    write(`${head}${klogFields(fields)}\n${trace}`);
  };

/** Field names of the line itself; a caller's field of that name gets a `_` after it. */
const ownFields = new Set(["ts", "level", "v", "logger", "msg", "stack"]);

const jsonEmitter =
  (write: (line: string) => void): Core["emit"] =>
  ({ severity, level, source, message, fields, stack }) => {
    const own = fields.map(([key, value]) => [ownFields.has(key) ? `${key}_` : key, value]);
    const head = { level: severity, ts: Date.now(), ...(severity === "info" && { v: level }), logger: source };
    const line = { ...head, ...Object.fromEntries(own), ...(stack && { stack }), msg: message };
    write(`${JSON.stringify(line)}\n`);
  };

function lostLine(format: LogOptions["format"]): (lost: number) => string {
  const message = (lost: number): string => `${lost} log lines were dropped: the reader of the log did not keep up`;
  return format === "text" ? message : (lost) => JSON.stringify({ level: "warn", ts: Date.now(), msg: message(lost) });
}

function parseVmodule(text: string): readonly VmoduleRule[] {
  return text
    .split(",")
    .filter((rule) => rule.trim() !== "")
    .map((rule) => {
      const [, pattern, level] = /^\s*([^=\s]+)=(\d+)\s*$/.exec(rule) ?? [];
      if (pattern === undefined || level === undefined)
        throw new CodedError("InvalidFlags", `--vmodule: "${rule}" is not of the form pattern=level`);
      const source = pattern
        .replaceAll(/[\\^$.|+()[\]{}]/g, String.raw`\$&`)
        .replaceAll("*", ".*")
        .replaceAll("?", ".");
      return { pattern: new RegExp(`^${source}$`), level: Number(level) };
    });
}
