import { stat } from "node:fs/promises";

import { readNamedFile } from "../../config/parse/document.ts";
import { type SourceWatch, watchPath } from "./watch-path.ts";

export interface ConfigSource {
  /** For people, e.g. `--cloud-config=/etc/kubernetes/azure.json`. */
  readonly description: string;
  /** The whole content; rejects with one line that names the source and what is wrong. */
  read(): Promise<string>;
  /**
   * Changes with every write, even of the same bytes. Without it, equal content counts as unchanged, which holds only
   * where one write replaces the whole content at once.
   */
  version?(): Promise<string>;
  /** Calls `hint` whenever the content may have changed, and perhaps when it has not. */
  watch(hint: () => void): SourceWatch;
}

/** A source as far as it can be read. */
export type ReadableSource = Omit<ConfigSource, "watch">;

export function fileSource(path: string): ConfigSource {
  const description = `--cloud-config=${path}`;
  return {
    description,
    read: () => readNamedFile(description, path),
    version: () => fileVersion(path),
    watch: (hint) => watchPath(path, hint),
  };
}

/** The file behind a path, and when it was last written. The change time cannot be set back, as the modification time can. */
async function fileVersion(path: string): Promise<string> {
  const status = await stat(path, { bigint: true }).catch(() => undefined);
  return status === undefined ? "missing" : `${status.dev} ${status.ino} ${status.size} ${status.ctimeNs}`;
}
