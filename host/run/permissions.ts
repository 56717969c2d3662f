import type { Permission } from "cloud-controller-host/sdk";

import type { Options } from "../config/flags/options.ts";
import type { LeaderMigration } from "../config/parse/migration-config.ts";
import { sharesServices } from "../config/validate/shard.ts";
import { enabledPlugins } from "../generation/plugins/enabled.ts";
import type { PluginSet } from "../generation/plugins/load.ts";
import { serviceAccountNamespace } from "../kube/connection/service-account-clients.ts";
import { concerns } from "../process/leader-election/migration.ts";
import { component } from "./process-parts.ts";

/**
 * Permissions that the process itself needs, besides those that its plugins declare. Manifests and tests grant exactly
 * these: the host uses no others. `accounts` are the plugins' service accounts, which matter only with
 * `--use-service-account-credentials`.
 */
export function hostPermissions(
  options: Options,
  migrations: readonly LeaderMigration[] = [],
  accounts: readonly ServiceAccountGrant[] = [],
): readonly Permission[] {
  if (options.shadow) return shadowPermissions(options);
  return [
    { apiGroup: "", resources: ["events"], verbs: ["create", "patch"] },
    ...(options.securePort === 0 ? [] : accessPermissions),
    ...(options.leaderElect ? leasePermissions(options, migrations) : []),
    ...(options.cloudConfig === "" ? secretPermissions(options) : []),
    ...(options.useServiceAccountCredentials ? accountPermissions(accounts) : []),
  ];
}

/** Permissions of `--shadow`: it reads which manager leads, and authorizes readers of its endpoints. */
const shadowPermissions = (options: Options): readonly Permission[] => [
  ...(options.securePort === 0 ? [] : accessPermissions),
  ...(options.leaderElect ? [leaseReading(options)] : []),
  ...(options.cloudConfig === "" ? secretPermissions(options) : []),
];

const leaseReading = (options: Options): Permission => ({
  apiGroup: "coordination.k8s.io",
  resources: ["leases"],
  verbs: ["get"],
  resourceNames: [options.leaderElectResourceName],
  namespace: options.leaderElectResourceNamespace,
});

const readVerbs: ReadonlySet<string> = new Set(["get", "list", "watch"]);

/** The part of permissions that changes nothing. */
export const readingOf = (permissions: readonly Permission[]): readonly Permission[] =>
  permissions
    .map((permission) => ({ ...permission, verbs: permission.verbs.filter((verb) => readVerbs.has(verb)) }))
    .filter(({ verbs }) => verbs.length > 0);

/** Permissions of one service account in `kube-system` with `--use-service-account-credentials`. */
export interface ServiceAccountGrant {
  readonly name: string;
  readonly permissions: readonly Permission[];
}

/** The service accounts of the cloud and of the enabled controllers: one per client name, as upstream. */
export function serviceAccountGrants(options: Options, plugins: PluginSet): readonly ServiceAccountGrant[] {
  const { clouds, controllers } = enabledPlugins(options, plugins);
  const clients = [
    ...clouds.map(({ name, permissions }) => [`${name}-cloud-provider`, permissions] as const),
    ...controllers.map(({ initContext, permissions }) => [initContext.clientName, permissions] as const),
  ];
  const grants = Map.groupBy(clients, ([name]) => name);
  return [...grants].map(([name, parts]) => ({ name, permissions: parts.flatMap(([, permissions]) => permissions) }));
}

/**
 * Gets each service account, creates it if missing and requests a token. No other account's token can be requested. The
 * informers are shared and continue to read as the process itself.
 */
function accountPermissions(accounts: readonly ServiceAccountGrant[]): readonly Permission[] {
  const resourceNames = accounts.map(({ name }) => name);
  const own = { apiGroup: "", namespace: serviceAccountNamespace } as const;
  const reading = ["list", "watch"];
  return [
    { ...own, resources: ["serviceaccounts"], verbs: ["create"] },
    { ...own, resources: ["serviceaccounts"], verbs: ["get"], resourceNames },
    { ...own, resources: ["serviceaccounts/token"], verbs: ["create"], resourceNames },
    ...accounts
      .flatMap(({ permissions }) => permissions)
      .map((permission) => ({ ...permission, verbs: permission.verbs.filter((verb) => reading.includes(verb)) }))
      .filter(({ verbs }) => verbs.length > 0),
  ];
}

/** The API server authorizes readers of what is served, and publishes the client CA. */
const accessPermissions: readonly Permission[] = [
  { apiGroup: "authentication.k8s.io", resources: ["tokenreviews"], verbs: ["create"] },
  { apiGroup: "authorization.k8s.io", resources: ["subjectaccessreviews"], verbs: ["create"] },
  {
    apiGroup: "",
    resources: ["configmaps"],
    verbs: ["get"],
    resourceNames: ["extension-apiserver-authentication"],
    namespace: "kube-system",
  },
];

/** Names cannot be granted for `create`, since the object has none yet. */
function leasePermissions(options: Options, migrations: readonly LeaderMigration[]): readonly Permission[] {
  const further = migrations.filter((migration) => concerns(migration, component));
  const resourceNames = [options.leaderElectResourceName, ...further.map(({ leaderName }) => leaderName)];
  const lease = {
    apiGroup: "coordination.k8s.io",
    resources: ["leases"],
    namespace: options.leaderElectResourceNamespace,
  };
  // The Leases of other shards, whatever their names.
  const others: Permission = { ...lease, verbs: ["list"] };
  return [
    { ...lease, verbs: ["create"] },
    { ...lease, verbs: ["get", "list", "watch", "update"], resourceNames },
    ...(sharesServices(options) ? [others] : []),
  ];
}

function secretPermissions(options: Options): readonly Permission[] {
  return [
    {
      apiGroup: "",
      resources: ["secrets"],
      verbs: ["get", "list", "watch"],
      resourceNames: [options.cloudConfigSecretName],
      namespace: options.cloudConfigSecretNamespace,
    },
  ];
}
