import { isUtf8 } from "node:buffer";
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";

import { CodedError } from "cloud-controller-host/sdk";

const pieceBytes = 64 * 1024;

/**
 * The content of a regular file: all of it, or `FileUnreadable` for more than `maxBytes`; without a limit as much as the
 * file has when it is opened. A pipe, a socket or a device is refused with `FileUnreadable`: a read of it may never
 * end, and would occupy one of the few threads that read files for the whole process.
 */
export async function readBytes(path: string, maxBytes?: number): Promise<Buffer> {
  // Without O_NONBLOCK, opening a pipe waits for its writer.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const status = await file.stat();
    if (!status.isFile() && !status.isDirectory())
      throw new CodedError("FileUnreadable", `${path} is a pipe, a socket or a device; name a regular file`);
    const bytes = await readAtMost(file, maxBytes === undefined ? status.size : maxBytes + 1);
    if (maxBytes === undefined || bytes.length <= maxBytes) return bytes;
  } finally {
    await file.close();
  }
  throw new CodedError("FileUnreadable", `${path} has more than ${maxBytes} bytes`);
}

/** Bounded by the bytes that are read: a file may grow for as long as that takes. */
async function readAtMost(file: FileHandle, maxBytes: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for (let length = 0; length < maxBytes;) {
    const piece = Buffer.alloc(Math.min(pieceBytes, maxBytes - length));
    const { bytesRead } = await file.read(piece);
    if (bytesRead === 0) break;
    pieces.push(piece.subarray(0, bytesRead));
    length += bytesRead;
  }
  return Buffer.concat(pieces);
}

/** As of a kubeconfig: what is parsed costs several times its bytes. A Secret or a ConfigMap has 1 MiB at most. */
const maxTextBytes = 16 * 1024 * 1024;

/** The same as text in UTF-8; `FileUnreadable` for more than 16 MiB. */
export const readText = async (path: string): Promise<string> => (await readBytes(path, maxTextBytes)).toString("utf8");

/** The same; `FileUnreadable` for bytes that are not UTF-8, too. */
export async function readDocument(path: string): Promise<string> {
  const text = documentText(await readBytes(path, maxTextBytes));
  if (text === undefined) throw new CodedError("FileUnreadable", `${path} ${notUTF8}`);
  return text;
}

/** Undefined for bytes that are not UTF-8: characters would be replaced, as in a password, and nothing would name them. */
export const documentText = (bytes: Buffer): string | undefined => (isUtf8(bytes) ? bytes.toString("utf8") : undefined);

export const notUTF8 = "is not UTF-8; save it in that encoding";
