import { realpathSync } from "node:fs";
import { sep } from "node:path";

/**
 * Forgets every module under a folder, so that the next `import(path)` reads the sources again: the entry and its
 * siblings alike, and at no cost in memory. Modules outside the folder, such as the SDK, keep their identity.
 */
export function evict(folder: string): number {
  const prefix = realpathSync(folder) + sep;
  const stale = Object.keys(require.cache).filter((path) => path.startsWith(prefix));
  for (const path of stale) delete require.cache[path];
  return stale.length;
}
