import { readNamedFile } from "../config/document.ts";
import { type SourceWatch, watchPath } from "./watch-path.ts";

/** Where the cloud config comes from. */
export interface ConfigSource {
  /** For people, e.g. `--cloud-config=/etc/kubernetes/azure.json`. */
  readonly description: string;
  /** The whole content; rejects with one line that names the source and what is wrong. */
  read(): Promise<string>;
  /** Calls `hint` whenever the content may have changed, and perhaps when it has not. */
  watch(hint: () => void): SourceWatch;
}

export function fileSource(path: string): ConfigSource {
  const description = `--cloud-config=${path}`;
  return {
    description,
    read: () => readNamedFile(description, path),
    watch: (hint) => watchPath(path, hint),
  };
}
