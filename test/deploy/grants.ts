import type { Grant } from "../../host/cli/grants.ts";
import type { AuditedRequest } from "../envtest/audit.ts";
import type { Manifest } from "./helm.ts";

interface Rule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** One thing that may be done, as `verb resource[.group] [name] [in namespace]`. */
function permit(verb: string, group: string, resource: string, name: string, namespace: string): string {
  const what = group === "" ? resource : `${resource}.${group}`;
  return [verb, what, name, namespace === "" ? "" : `in ${namespace}`].filter((word) => word !== "").join(" ");
}

function expand(rules: readonly Rule[], namespace: string): readonly string[] {
  return rules.flatMap(({ apiGroups = [], resources = [], resourceNames = [], verbs }) =>
    verbs.flatMap((verb) =>
      apiGroups.flatMap((group) =>
        resources.flatMap((resource) =>
          (resourceNames.length === 0 ? [""] : resourceNames).map((name) =>
            permit(verb, group, resource, name, namespace),
          ),
        ),
      ),
    ),
  );
}

/** All that ClusterRoles and Roles of that name grant, each once, in order. */
export function grantedBy(manifests: readonly Manifest[], name: string): readonly string[] {
  const roles = manifests.filter(
    ({ kind, metadata }) => ["ClusterRole", "Role"].includes(kind) && metadata.name === name,
  );
  const permits = roles.flatMap((role) => {
    const rules: readonly Rule[] = JSON.parse(JSON.stringify(role["rules"]));
    return expand(rules, role.metadata.namespace ?? "");
  });
  return [...new Set(permits)].toSorted();
}

/** The same of what the parts of a host declare. */
export function declaredIn(grants: readonly Grant[]): readonly string[] {
  const permits = grants.flatMap(({ permissions }) =>
    permissions.flatMap(({ apiGroup, namespace = "", ...rest }) =>
      expand([{ ...rest, apiGroups: [apiGroup] }], namespace),
    ),
  );
  return [...new Set(permits)].toSorted();
}

/** What the requests made use of, in every form in which it may have been granted: named or not, everywhere or here. */
export function usedBy(requests: readonly AuditedRequest[]): ReadonlySet<string> {
  return new Set(
    requests
      .filter(({ resource }) => resource !== "")
      .flatMap(({ verb, resource, name, namespace, uri }) => {
        const group = /^\/apis\/([^/]+)\//.exec(uri)?.[1] ?? "";
        // A watch that streams its initial list takes the place of the list that other servers need.
        const verbs = uri.includes("sendInitialEvents=true") ? [verb, "list"] : [verb];
        return verbs.flatMap((used) =>
          ["", name].flatMap((named) => ["", namespace].map((here) => permit(used, group, resource, named, here))),
        );
      }),
  );
}
