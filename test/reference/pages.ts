import { join } from "node:path";

import { flagsFile, permissionsFile } from "../../deploy/generated.ts";
import { alerts } from "./alerts.ts";
import { serviceAnnotations } from "./annotations.ts";
import { config } from "./config.ts";
import { errors } from "./errors.ts";
import { flags } from "./flags.ts";
import { metrics } from "./metrics.ts";
import { permissions } from "./permissions.ts";
import { states } from "./states.ts";

export const root = join(import.meta.dir, "..", "..");

/** Every generated file but the manifests, which need Helm: its path and how it is made. */
export const pages: Readonly<Record<string, () => string | Promise<string>>> = {
  "host/config/FLAGS.md": flags,
  "host/METRICS.md": metrics,
  "host/generation/STATES.md": states,
  "sdk/ERRORS.md": errors,
  "plugins/azure-cloud/CONFIG.md": config,
  "plugins/azure-cloud/ANNOTATIONS.md": serviceAnnotations,
  "deploy/ALERTS.md": alerts,
  "deploy/PERMISSIONS.md": permissions,
  "deploy/chart/files/permissions.yaml": permissionsFile,
  "deploy/chart/files/flags.yaml": flagsFile,
};
