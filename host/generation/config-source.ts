import { readFile } from "node:fs/promises";

import { CodedError, messageOf } from "cloud-controller-host/sdk";

import { watchPath } from "./watch-path.ts";

export interface SourceWatch {
  close(): void;
  /** Mends whatever the watch lost; called now and then, and cheap. */
  rearm(): void;
}

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
    async read() {
      try {
        return await readFile(path, "utf8");
      } catch (error) {
        throw new CodedError("CloudConfigUnreadable", `${description}: ${reasonOf(error)}`, { cause: error });
      }
    },
    watch: (hint) => watchPath(path, hint),
  };
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file; create it or correct the flag",
  EACCES: "the file may not be read; give the process's user read permission",
  EISDIR: "this is a folder; name the file in it",
};

function reasonOf(error: unknown): string {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return reasons[code] ?? messageOf(error);
}
