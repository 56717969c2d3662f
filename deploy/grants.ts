import type { Permission } from "cloud-controller-host/sdk";

import { enabledPlugins } from "../host/generation/enabled.ts";
import { hostPermissions, type ServiceAccountGrant, serviceAccountGrants } from "../host/permissions.ts";
import type { HostInput } from "../host/process-parts.ts";

/** What one part of a running host may ask of the API server. */
export interface Grant {
  /** Who needs it: `host`, the cloud's name, or a controller's canonical name. */
  readonly holder: string;
  readonly permissions: readonly Permission[];
}

type Started = Pick<HostInput, "options" | "migrations" | "plugins">;

/** Service accounts of controllers and the cloud, besides the host's own; none unless enabled by flag. */
export const accountsOf = ({ options, plugins }: Started): readonly ServiceAccountGrant[] =>
  options.useServiceAccountCredentials ? serviceAccountGrants(options, plugins) : [];

/**
 * Everything that a host which is started like this may ask for in its own name, by who needs it: the process itself,
 * the cloud and each enabled controller.
 */
export function grantsOf(started: Started): readonly Grant[] {
  const { options, migrations, plugins } = started;
  const host = { holder: "host", permissions: hostPermissions(options, migrations, accountsOf(started)) };
  if (options.useServiceAccountCredentials) return [host];
  const { clouds, controllers } = enabledPlugins(options, plugins);
  return [host, ...[...clouds, ...controllers].map(({ name, permissions }) => ({ holder: name, permissions }))];
}
