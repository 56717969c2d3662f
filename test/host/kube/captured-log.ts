import { createLogger, type HostLogger } from "../../../host/process/log/log.ts";

export interface CapturedLine {
  readonly level: string;
  readonly msg: string;
  readonly [field: string]: unknown;
}

/** The real logger, with its lines kept for the test. */
export function capturedLog(verbosity = 0): {
  readonly log: HostLogger;
  readonly lines: () => readonly CapturedLine[];
} {
  const lines: CapturedLine[] = [];
  const write = (line: string): void => void lines.push(JSON.parse(line));
  return { log: createLogger({ format: "json", verbosity, write }), lines: () => lines };
}
