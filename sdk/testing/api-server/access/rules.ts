import type { User } from "./tokens.ts";

/** The fields of an access decision. Fields that do not apply are empty. */
export interface Access {
  readonly username: string;
  readonly groups: readonly string[];
  readonly verb: string;
  /** Set for a request that is not for a resource. */
  readonly path: string;
  readonly group: string;
  /** With its subresource: `nodes/status`. */
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
}

/** A rule of a Role. `*` matches everything; in a path it matches any suffix. */
export interface PolicyRule {
  readonly verbs: readonly string[];
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly nonResourceURLs?: readonly string[];
}

/** The bootstrap policy of a cluster, without its controllers' roles. Source: Kubernetes `rbac/bootstrappolicy`. */
const policy: readonly { readonly groups: readonly string[]; readonly rules: readonly PolicyRule[] }[] = [
  {
    // Without RBAC objects, service accounts in kube-system are treated as controllers with their roles bound.
    groups: ["system:masters", "system:serviceaccounts:kube-system"],
    rules: [
      { verbs: ["*"], apiGroups: ["*"], resources: ["*"] },
      { verbs: ["*"], nonResourceURLs: ["*"] },
    ],
  },
  {
    groups: ["system:authenticated"],
    rules: [
      { verbs: ["create"], apiGroups: ["authentication.k8s.io"], resources: ["selfsubjectreviews"] },
      {
        verbs: ["create"],
        apiGroups: ["authorization.k8s.io"],
        resources: ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
      },
      { verbs: ["get"], nonResourceURLs: ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"] },
    ],
  },
  {
    groups: ["system:authenticated", "system:unauthenticated"],
    rules: [{ verbs: ["get"], nonResourceURLs: ["/healthz", "/livez", "/readyz", "/version", "/version/"] }],
  },
];

/** All rules that apply to a user, as `kubectl auth can-i --list` prints them. */
export const rulesOf = ({ groups }: Pick<User, "groups">): readonly PolicyRule[] =>
  policy.filter((entry) => entry.groups.some((group) => groups.includes(group))).flatMap(({ rules }) => rules);

export const isAllowed = (access: Access): boolean =>
  rulesOf(access).some((rule) => (access.path === "" ? coversResource(rule, access) : coversPath(rule, access)));

const includes = (list: readonly string[] | undefined, item: string): boolean =>
  list !== undefined && (list.includes("*") || list.includes(item));

const coversResource = (rule: PolicyRule, { verb, group, resource }: Access): boolean =>
  includes(rule.verbs, verb) && includes(rule.apiGroups, group) && includes(rule.resources, resource);

const coversPath = (rule: PolicyRule, { verb, path }: Access): boolean =>
  includes(rule.verbs, verb) &&
  (rule.nonResourceURLs ?? []).some((url) => (url.endsWith("*") ? path.startsWith(url.slice(0, -1)) : url === path));
