import type { Permission } from "cloud-controller-host/sdk";

import { enabledPlugins } from "../generation/plugins/enabled.ts";
import type { PluginSet } from "../generation/plugins/load.ts";
import { hostPermissions, readingOf, type ServiceAccountGrant, serviceAccountGrants } from "../run/permissions.ts";
import type { HostInput } from "../run/process-parts.ts";

/** Permissions of one part of a running host. */
export interface Grant {
  /** The part: `host`, the cloud's name, or a controller's canonical name. */
  readonly holder: string;
  readonly permissions: readonly Permission[];
}

/** The part of the input that decides the permissions of a host. */
export interface StartedWith extends Pick<HostInput, "options" | "migrations"> {
  readonly plugins: PluginSet;
}

/** Service accounts of controllers and the cloud, besides the host's own; none unless enabled by flag. */
export const accountsOf = ({ options, plugins }: StartedWith): readonly ServiceAccountGrant[] =>
  options.useServiceAccountCredentials && !options.shadow ? serviceAccountGrants(options, plugins) : [];

/** Permissions that a host with these options needs in its own name: the process, the cloud, each enabled controller. */
export function grantsOf(started: StartedWith): readonly Grant[] {
  const { options, migrations, plugins } = started;
  const host = { holder: "host", permissions: hostPermissions(options, migrations, accountsOf(started)) };
  if (options.useServiceAccountCredentials && !options.shadow) return [host];
  const { clouds, controllers } = enabledPlugins(options, plugins);
  const own = [...clouds, ...controllers].map(({ name, permissions }) => ({
    holder: name,
    permissions: options.shadow ? readingOf(permissions) : permissions,
  }));
  return [host, ...own];
}
