import type { Options } from "./options.ts";
import { programName } from "./parse.ts";

/** What is known of this build. */
export interface VersionInfo {
  /** `vX.Y.Z`. */
  readonly version: string;
  readonly commit?: string | undefined;
}

/** The answer to `--version`; with `raw` (`--version=raw`) one JSON object with all that is known. */
export const versionText = (info: VersionInfo, raw: boolean): string =>
  raw
    ? JSON.stringify({
        version: info.version,
        ...(info.commit === undefined ? {} : { commit: info.commit }),
        bun: Bun.version,
        platform: `${process.platform}/${process.arch}`,
      })
    : `${programName} ${info.version}`;

/** The version that the process reports: its own, unless `--version=vX.Y.Z…` names another. */
export const reportedVersion = (options: Options, built: string): string =>
  options.version.startsWith("v") ? options.version : built;
