import { isAllowed } from "./rules.ts";
import { StatusError, unauthorized } from "./status.ts";
import { groupsOf, type Tokens, type User } from "./tokens.ts";

const anonymous: User = { username: "system:anonymous", groups: ["system:unauthenticated"] };

/**
 * The user of a request: that of its bearer token, the anonymous user without one, or the user that an `Impersonate-User`
 * header names. Throws a 401 for an unknown token and a 403 for an impersonation that the caller is not allowed.
 */
export function authenticate(tokens: Tokens, { headers }: Request): User {
  const header = headers.get("authorization");
  const [, token = ""] = /^Bearer\s+(\S+)$/iu.exec(header ?? "") ?? [];
  const user = header === null ? anonymous : tokens.authenticate(token);
  if (user === undefined) throw unauthorized();
  return impersonated(user, headers);
}

/** Source: Kubernetes `endpoints/filters/impersonation.go`. */
function impersonated(user: User, headers: Headers): User {
  const username = headers.get("impersonate-user");
  const groups = headers.get("impersonate-group")?.split(/,\s*/u) ?? [];
  if (username === null) {
    if (groups.length === 0) return user;
    throw new StatusError(400, "BadRequest", `requested [{Group  ${groups[0]}}] without impersonating a user`);
  }
  assertMayImpersonate(user, "users", username);
  for (const group of groups) assertMayImpersonate(user, "groups", group);
  const uid = headers.get("impersonate-uid");
  const identity = { username, ...(uid === null ? {} : { uid }) };
  if (username === anonymous.username) return { ...identity, groups: anonymous.groups };
  const implied = groups.length === 0 ? groupsOf(username, []) : groups;
  return { ...identity, groups: [...new Set([...implied, "system:authenticated"])] };
}

function assertMayImpersonate({ username, groups }: User, resource: string, name: string): void {
  const access = { username, groups, verb: "impersonate", path: "", group: "", resource, namespace: "", name };
  if (isAllowed(access)) return;
  const action = `User "${username}" cannot impersonate resource "${resource}" in API group "" at the cluster scope`;
  throw new StatusError(403, "Forbidden", `${resource} "${name}" is forbidden: ${action}`, { name, kind: resource });
}
