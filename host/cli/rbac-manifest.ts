import type { Permission } from "cloud-controller-host/sdk";

import type { Grant } from "./grants.ts";

/** A service account, and the name of its roles and bindings. */
export interface Account {
  readonly role: string;
  readonly name: string;
  readonly namespace: string;
}

/** An RBAC rule as YAML, one list item; `indent` spaces before each line. */
export function ruleLines(permission: Permission, indent = 0): readonly string[] {
  const { apiGroup, resources, resourceNames, verbs } = permission;
  const lines = [
    `- apiGroups: ${list([apiGroup])}`,
    `  resources: ${list(resources)}`,
    ...(resourceNames === undefined ? [] : [`  resourceNames: ${list(resourceNames)}`]),
    `  verbs: ${list(verbs)}`,
  ];
  return lines.map((line) => " ".repeat(indent) + line);
}

const list = (items: readonly string[]): string => `[${items.map((item) => JSON.stringify(item)).join(", ")}]`;

/** Roles and bindings of the account as YAML documents: a ClusterRole, and a Role for each namespace that is named. */
export function rbacManifest(account: Account, grants: readonly Grant[]): string {
  const namespaces = new Set(grants.flatMap(({ permissions }) => permissions.map(({ namespace = "" }) => namespace)));
  const scopes = [...namespaces].toSorted().map((namespace) => namespace || undefined);
  return scopes.flatMap((namespace) => [role(account, grants, namespace), binding(account, namespace)]).join("---\n");
}

const kindIn = (namespace: string | undefined): "ClusterRole" | "Role" =>
  namespace === undefined ? "ClusterRole" : "Role";

function head(kind: string, { role: name }: Account, namespace: string | undefined): readonly string[] {
  const scope = namespace === undefined ? [] : [`  namespace: ${namespace}`];
  return ["apiVersion: rbac.authorization.k8s.io/v1", `kind: ${kind}`, "metadata:", `  name: ${name}`, ...scope];
}

function role(account: Account, grants: readonly Grant[], namespace: string | undefined): string {
  const rules = grants.flatMap(({ holder, permissions }) => {
    const here = permissions.filter((permission) => permission.namespace === namespace);
    return here.length === 0 ? [] : [`  # ${holder}`, ...here.flatMap((permission) => ruleLines(permission, 2))];
  });
  return `${[...head(kindIn(namespace), account, namespace), "rules:", ...rules].join("\n")}\n`;
}

function binding(account: Account, namespace: string | undefined): string {
  const kind = kindIn(namespace);
  const lines = [
    ...head(`${kind}Binding`, account, namespace),
    "roleRef:",
    "  apiGroup: rbac.authorization.k8s.io",
    `  kind: ${kind}`,
    `  name: ${account.role}`,
    "subjects:",
    "  - kind: ServiceAccount",
    `    name: ${account.name}`,
    `    namespace: ${account.namespace}`,
  ];
  return `${lines.join("\n")}\n`;
}
