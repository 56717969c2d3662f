import type { Permission } from "cloud-controller-host/sdk";

import type { Options } from "./config/options.ts";
import { component } from "./process-parts.ts";
import type { LeaderMigration } from "./process/migration-config.ts";
import { concerns } from "./process/migration.ts";

/**
 * What the process itself needs of the API server, beside what its plugins declare. Manifests and tests grant exactly
 * this: a rule that is not here is one that the host does not use.
 */
export function hostPermissions(options: Options, migrations: readonly LeaderMigration[] = []): readonly Permission[] {
  return [
    { apiGroup: "", resources: ["events"], verbs: ["create", "patch"] },
    ...(options.securePort === 0 ? [] : accessPermissions),
    ...(options.leaderElect ? leasePermissions(options, migrations) : []),
    ...(options.cloudConfig === "" ? secretPermissions(options) : []),
  ];
}

/** The API server decides who may read what is served: it is asked, and tells whose certificates count. */
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
  return [
    { ...lease, verbs: ["create"] },
    { ...lease, verbs: ["get", "list", "watch", "update"], resourceNames },
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
