import { randomBytes } from "node:crypto";

/** The user of a request. */
export interface User {
  readonly username: string;
  readonly uid?: string;
  readonly groups: readonly string[];
}

interface Issued {
  readonly user: User;
  /** Milliseconds since 1970; undefined for a token that does not expire. */
  readonly expiresAt: number | undefined;
}

/** The bearer tokens that are valid. */
export class Tokens {
  readonly #issued = new Map<string, Issued>();
  readonly #longLived = new Map<string, string>();

  /** The long-lived token of an administrator of that name, the same one on each call until it is revoked. */
  of(username: string): string {
    const known = this.#longLived.get(username);
    if (known !== undefined) return known;
    const token = this.#issue({ username, groups: groupsOf(username, ["system:masters"]) });
    this.#longLived.set(username, token);
    return token;
  }

  /** A token for a service account. `expiresAt` is in milliseconds since 1970. */
  issueFor(namespace: string, name: string, uid: string, expiresAt: number): string {
    const username = `system:serviceaccount:${namespace}:${name}`;
    return this.#issue({ username, uid, groups: groupsOf(username, []) }, expiresAt);
  }

  #issue(user: User, expiresAt?: number): string {
    const token = randomBytes(24).toString("base64url");
    this.#issued.set(token, { user, expiresAt });
    return token;
  }

  /** Revokes every token of the user: its next request is answered with a 401. */
  revoke(username: string): void {
    this.#longLived.delete(username);
    for (const [token, { user }] of this.#issued) if (user.username === username) this.#issued.delete(token);
  }

  /** The user of a token; undefined when the token is unknown or has expired. */
  authenticate(token: string): User | undefined {
    const issued = this.#issued.get(token);
    if (issued?.expiresAt !== undefined && issued.expiresAt <= Date.now()) return undefined;
    return issued?.user;
  }
}

/** The groups of a user; those of a service account follow from its name. */
export function groupsOf(username: string, groups: readonly string[]): readonly string[] {
  const [, namespace] = /^system:serviceaccount:([^:]+):[^:]+$/u.exec(username) ?? [];
  if (namespace === undefined) return [...groups, "system:authenticated"];
  return ["system:serviceaccounts", `system:serviceaccounts:${namespace}`, "system:authenticated"];
}
