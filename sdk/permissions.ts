/** The verbs of the API, and those of RBAC for special resources. */
export const permissionVerbs = [
  "get",
  "list",
  "watch",
  "create",
  "update",
  "patch",
  "delete",
  "deletecollection",
  "approve",
  "bind",
  "escalate",
  "impersonate",
  "sign",
  "use",
] as const;

/** A verb of the API server; a misspelled one does not compile. */
export type PermissionVerb = (typeof permissionVerbs)[number];

/** One RBAC rule that the plugin needs; manifests are generated from these. */
export interface Permission {
  /** Empty for the core group. */
  readonly apiGroup: string;
  /** Plural names, such as `nodes`, or `nodes/status` for a subresource. */
  readonly resources: readonly string[];
  readonly verbs: readonly PermissionVerb[];
  readonly resourceNames?: readonly string[];
  /** Set for a Role in that namespace; otherwise the rule belongs to a ClusterRole. */
  readonly namespace?: string;
}
