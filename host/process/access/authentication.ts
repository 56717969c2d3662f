import { messageOf } from "cloud-controller-host/sdk";

import type { PeerInfo } from "./peer.ts";
import { anonymous, type Authenticator, type User, withAuthenticatedGroup } from "./user.ts";

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
