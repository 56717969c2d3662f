import { constants } from "node:fs";
import { open } from "node:fs/promises";

import { CodedError } from "cloud-controller-host/sdk";

/** Far above any certificate or list of endpoints. What is parsed costs several times its bytes. */
const maxBytes = 16 * 1024 * 1024;

/**
 * The content of a regular file of up to 16 MiB. A pipe, a socket or a device is refused: a read of it may never end, and
 * would occupy one of the few threads that read files for the whole process.
 */
export async function readRegularFile(path: string): Promise<Buffer> {
  // Without O_NONBLOCK, opening a pipe waits for its writer.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const status = await file.stat();
    if (status.size > maxBytes) throw new CodedError("FileUnreadable", `${path} has more than ${maxBytes} bytes`);
    if (status.isFile() || status.isDirectory()) return await file.readFile();
  } finally {
    await file.close();
  }
  throw new CodedError("FileUnreadable", `${path} is a pipe, a socket or a device; name a regular file`);
}
