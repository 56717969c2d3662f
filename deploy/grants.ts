import type { Permission } from "cloud-controller-host/sdk";

import { isControllerEnabled } from "../host/generation/enabled.ts";
import { hostPermissions } from "../host/permissions.ts";
import type { HostInput } from "../host/process-parts.ts";

/** What one part of a running host may ask of the API server. */
export interface Grant {
  /** Who needs it: `host`, the cloud's name, or a controller's canonical name. */
  readonly holder: string;
  readonly permissions: readonly Permission[];
}

/**
 * Everything that a host which is started like this may ask for, by who needs it: the process itself, the cloud and
 * each enabled controller.
 */
export function grantsOf({
  options,
  migrations,
  plugins,
}: Pick<HostInput, "options" | "migrations" | "plugins">): readonly Grant[] {
  const cloud = plugins.clouds.filter(({ name }) => name === options.cloudProvider);
  const enabled = plugins.controllers.filter(({ name, enabledByDefault }) =>
    isControllerEnabled(name, enabledByDefault, options.controllers),
  );
  return [
    { holder: "host", permissions: hostPermissions(options, migrations) },
    ...[...cloud, ...enabled].map(({ name, permissions }) => ({ holder: name, permissions })),
  ];
}
