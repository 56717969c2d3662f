import { constants } from "node:fs";
import { access, statfs } from "node:fs/promises";
import { tmpdir } from "node:os";

const memory = "/dev/shm";
/** Several times what tests have there at once. */
const minFreeBytes = 2 * 2 ** 30;

/**
 * Where tests have their temporary files: in memory where there is room for them. Each host makes copies of its plugins,
 * and on a disk the thousands of files that come and go cost the processor more than what is written to them.
 */
export async function temporaryRoot(): Promise<string> {
  if (process.env["TMPDIR"] !== undefined) return tmpdir();
  try {
    await access(memory, constants.W_OK | constants.X_OK);
    const { bavail, bsize } = await statfs(memory);
    return bavail * bsize >= minFreeBytes ? memory : tmpdir();
  } catch {
    return tmpdir();
  }
}
