import type { Permission } from "cloud-controller-host/sdk";

import type { TestClient } from "./client.ts";

const rbac = "rbac.authorization.k8s.io";
const patience = { tries: 200, pauseMs: 50 } as const;

/** Writes the roles and bindings that give the user these permissions, in place of any that were granted before. */
export async function grant(admin: TestClient, user: string, permissions: readonly Permission[]): Promise<void> {
  const name = `test:${user}`;
  const namespaces = new Set(permissions.map(({ namespace }) => namespace));
  for (const namespace of namespaces.add(undefined)) {
    const rules = permissions
      .filter((permission) => permission.namespace === namespace)
      .map(({ apiGroup, resources, verbs, resourceNames = [] }) => ({
        apiGroups: [apiGroup],
        resources,
        verbs,
        resourceNames,
      }));
    const [role, scope] = namespace === undefined ? (["ClusterRole", {}] as const) : (["Role", { namespace }] as const);
    const metadata = { name, ...scope };
    await apply(admin, namespace, { apiVersion: `${rbac}/v1`, kind: role, metadata, rules });
    await apply(admin, namespace, {
      apiVersion: `${rbac}/v1`,
      kind: `${role}Binding`,
      metadata,
      roleRef: { apiGroup: rbac, kind: role, name },
      subjects: [{ apiGroup: rbac, kind: "User", name: user }],
    });
  }
  for (const permission of permissions) await allowed(admin, user, permission);
}

interface RoleOrBinding {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly [field: string]: unknown;
}

async function apply(admin: TestClient, namespace: string | undefined, object: RoleOrBinding): Promise<void> {
  const scope = namespace === undefined ? "" : `/namespaces/${namespace}`;
  const path = `/apis/${rbac}/v1${scope}/${object.kind.toLowerCase()}s/${encodeURIComponent(object.metadata.name)}`;
  await admin.request("PATCH", `${path}?fieldManager=test&force=true`, object, {
    contentType: "application/apply-patch+yaml",
  });
}

/** The authorizer learns of a role by its own informers, a moment later. */
async function allowed(admin: TestClient, user: string, permission: Permission): Promise<void> {
  const { apiGroup: group, resources, verbs, resourceNames = [""], namespace = "" } = permission;
  for (const resource of resources)
    for (const verb of verbs)
      for (const name of resourceNames) {
        const [plain = "", subresource = ""] = resource.split("/");
        const resourceAttributes = { group, resource: plain, subresource, verb, name, namespace };
        await untilAllowed(admin, { user, resourceAttributes });
      }
}

async function untilAllowed(admin: TestClient, spec: Readonly<Record<string, unknown>>): Promise<void> {
  for (let attempt = 0; attempt < patience.tries; attempt++) {
    const review: unknown = await admin.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {
      apiVersion: "authorization.k8s.io/v1",
      kind: "SubjectAccessReview",
      spec,
    });
    if (isAllowed(review)) return;
    await Bun.sleep(patience.pauseMs);
  }
  throw new Error(`never allowed: ${JSON.stringify(spec)}`);
}

const isAllowed = (review: unknown): boolean =>
  typeof review === "object" &&
  review !== null &&
  "status" in review &&
  typeof review.status === "object" &&
  review.status !== null &&
  "allowed" in review.status &&
  review.status.allowed === true;
