import { messageOf } from "cloud-controller-host/sdk";

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
function withAuthenticatedGroup(user: User): User {
  const known = user.groups.includes(groups.authenticated) || user.groups.includes(groups.unauthenticated);
  return known || user.name === anonymous.name ? user : { ...user, groups: [...user.groups, groups.authenticated] };
}

/**
 * Tries one authenticator after the other. A success counts even where an earlier one has found fault; without a
 * success any fault makes the request unauthenticated (it rejects); a request that carries nothing is anonymous.
 * Source: kubernetes/apiserver `authentication/request/union` and `anonymous`.
 */
export function authenticateBy(
  authenticators: readonly Authenticator[],
): (request: Request, peer: PeerInfo) => Promise<User> {
  return async (request, peer) => {
    const faults: unknown[] = [];
    for (const authenticate of authenticators)
      try {
        const user = await authenticate(request, peer);
        if (user !== undefined) return withAuthenticatedGroup(user);
      } catch (error) {
        faults.push(error);
      }
    if (faults.length === 0) return anonymous;
    throw faults.length === 1 ? faults[0] : new AggregateError(faults, faults.map(messageOf).join(", "));
  };
}
