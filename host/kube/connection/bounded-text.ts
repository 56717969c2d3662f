import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";

import { CodedError } from "cloud-controller-host/sdk";

const pieceBytes = 64 * 1024;
const pauseMs = 20;

/**
 * The text of a file or, as in `--kubeconfig=<(command)`, of a pipe. Throws for more than `maxBytes`, as of a device
 * without an end, and where a pipe has not been written to its end after `waitMs`.
 */
export function readBounded(path: string, { maxBytes = 16 * 1024 * 1024, waitMs = 30_000 } = {}): string {
  const deadline = performance.now() + waitMs;
  // Without O_NONBLOCK, opening a pipe waits for its writer.
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const isPipe = fstatSync(file).isFIFO();
    const pieces: Buffer[] = [];
    for (let bytes = 0; bytes <= maxBytes;) {
      const piece = readAvailable(file);
      if (piece?.length === 0 && (bytes > 0 || !isPipe)) return Buffer.concat(pieces).toString("utf8");
      if (performance.now() > deadline)
        throw new CodedError("FileUnreadable", `${path} was not written to its end within ${waitMs / 1000} s`);
      if (piece === undefined || piece.length === 0) {
        Bun.sleepSync(pauseMs);
        continue;
      }
      pieces.push(piece);
      bytes += piece.length;
    }
  } finally {
    closeSync(file);
  }
  throw new CodedError("FileUnreadable", `${path} has more than ${maxBytes} bytes`);
}

/** The next chunk; undefined while a pipe is empty. */
function readAvailable(file: number): Buffer | undefined {
  const piece = Buffer.alloc(pieceBytes);
  try {
    return piece.subarray(0, readSync(file, piece));
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EAGAIN") return undefined;
    throw error;
  }
}
