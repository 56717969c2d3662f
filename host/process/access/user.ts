import type { PeerInfo } from "./peer.ts";

/** Who sends a request. upstream: `user.Info`. */
export interface User {
  readonly name: string;
  readonly uid: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

/** Undefined: it carries nothing of this kind. Rejects where it carries something that does not hold. */
export type Authenticator = (request: Request, peer: PeerInfo) => Promise<User | undefined>;

export const groups = {
  authenticated: "system:authenticated",
  unauthenticated: "system:unauthenticated",
  masters: "system:masters",
} as const;

export const anonymous: User = {
  name: "system:anonymous",
  uid: "",
  groups: [groups.unauthenticated],
  extra: {},
};

/** upstream: `authenticator.group.NewAuthenticatedGroupAdder`. */
export function withAuthenticatedGroup(user: User): User {
  const known = user.groups.includes(groups.authenticated) || user.groups.includes(groups.unauthenticated);
  return known || user.name === anonymous.name ? user : { ...user, groups: [...user.groups, groups.authenticated] };
}
