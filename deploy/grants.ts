import type { Permission } from "cloud-controller-host/sdk";

import type { Options } from "../host/config/options.ts";
import { isControllerEnabled } from "../host/generation/enabled.ts";
import type { PluginSet } from "../host/generation/load.ts";
import { hostPermissions } from "../host/permissions.ts";

/** What one part of a running host may ask of the API server. */
export interface Grant {
  /** Who needs it: `host`, the cloud's name, or a controller's canonical name. */
  readonly holder: string;
  readonly permissions: readonly Permission[];
}

/**
 * Everything that a host with these options and plugins may ask for, by who needs it: the process itself, the cloud
 * and each enabled controller. Names in `options.controllers` are canonical.
 */
export function grantsOf(options: Options, { clouds, controllers }: PluginSet): readonly Grant[] {
  const cloud = clouds.filter(({ name }) => name === options.cloudProvider);
  const enabled = controllers.filter(({ name, enabledByDefault }) =>
    isControllerEnabled(name, enabledByDefault, options.controllers),
  );
  return [
    { holder: "host", permissions: hostPermissions(options) },
    ...[...cloud, ...enabled].map(({ name, permissions }) => ({ holder: name, permissions })),
  ];
}
