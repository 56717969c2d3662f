import type { Permission } from "cloud-controller-host/sdk";
import { type Access, isAllowed } from "cloud-controller-host/sdk/testing/api-server";

import type { Declared } from "./launcher.ts";

/** User name of the host, to tell its requests from those of the user. */
export const hostUser = "cloud-controller-manager";

/**
 * Authorizes the host's requests by the permissions that its parts declare, as the roles of a cluster would. A request of a
 * controller's client needs that controller's own; one of the process and its shared informers needs those of any part.
 */
export class Authorizer {
  declared: Declared;

  constructor(declared: Declared) {
    this.declared = declared;
  }

  authorizes(access: Access, client: string): boolean {
    const [, account] = /^system:serviceaccount:[^:]+:(.+)$/u.exec(access.username) ?? [];
    if (access.username !== hostUser && account === undefined) return isAllowed(access);
    if (isAllowed({ ...access, groups: ["system:authenticated"] })) return true;
    const { permissions } = this.declared;
    const own = permissions.get(account ?? client);
    if (own === undefined && account !== undefined) return isAllowed(access);
    return (own ?? [...permissions.values()].flat()).some((permission) => covers(permission, access));
  }
}

/** Source: Kubernetes `rbac/validation.RuleAllows`, without wildcards, which permissions do not have. */
function covers({ apiGroup, resources, verbs, resourceNames, namespace }: Permission, access: Access): boolean {
  return (
    access.path === "" &&
    apiGroup === access.group &&
    resources.includes(access.resource) &&
    verbs.some((verb) => verb === access.verb) &&
    (resourceNames === undefined || resourceNames.includes(access.name)) &&
    (namespace === undefined || namespace === access.namespace)
  );
}
