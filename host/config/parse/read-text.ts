import { constants } from "node:fs";
import { open } from "node:fs/promises";

import { CodedError } from "cloud-controller-host/sdk";

/**
 * The content of a regular file. A pipe, a socket or a device is refused with `FileUnreadable`: a read of it may never
 * end, and would occupy one of the few threads that read files for the whole process.
 */
export async function readBytes(path: string, maxBytes = Number.POSITIVE_INFINITY): Promise<Buffer> {
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

/** As of a kubeconfig: what is parsed costs several times its bytes. A Secret or a ConfigMap has 1 MiB at most. */
const maxTextBytes = 16 * 1024 * 1024;

/** The same as text in UTF-8; `FileUnreadable` for more than 16 MiB. */
export const readText = async (path: string): Promise<string> => (await readBytes(path, maxTextBytes)).toString("utf8");
