import { messageOf } from "cloud-controller-host/sdk";

import type { PeerInfo } from "../serving/peer.ts";

/** The authenticated sender of a request. upstream: `user.Info`. */
export interface User {
  readonly name: string;
  readonly uid: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

/** Resolves with undefined when the request has no credentials of this kind; rejects when they are invalid. */
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
 * Tries the authenticators in order. The first success wins, even after an earlier error; without a success, any error
 * rejects; a request without credentials is anonymous.
 * Source: kubernetes/apiserver `authentication/request/union` and `anonymous`.
 */
export function authenticateBy(
  authenticators: readonly Authenticator[],
): (request: Request, peer: PeerInfo) => Promise<User> {
  return async (request, peer) => {
    const errors: unknown[] = [];
    for (const authenticate of authenticators)
      try {
        const user = await authenticate(request, peer);
        if (user !== undefined) return withAuthenticatedGroup(user);
      } catch (error) {
        errors.push(error);
      }
    if (errors.length === 0) return anonymous;
    throw errors.length === 1 ? errors[0] : new AggregateError(errors, errors.map(messageOf).join(", "));
  };
}
