import { randomBytes } from "node:crypto";

/** Who a request comes from. */
export interface User {
  readonly username: string;
  readonly uid?: string;
  readonly groups: readonly string[];
}

interface Issued {
  readonly user: User;
  /** Milliseconds since 1970; undefined: until it is revoked. */
  readonly expiresAt: number | undefined;
}

/** The bearer tokens that the server knows. */
export class Tokens {
  readonly #issued = new Map<string, Issued>();
  readonly #lasting = new Map<string, string>();

  /** The lasting token of a user, the same one each time until it is revoked. */
  of(username: string): string {
    const known = this.#lasting.get(username);
    if (known !== undefined) return known;
    const token = this.#issue({ username, groups: groupsOf(username) });
    this.#lasting.set(username, token);
    return token;
  }

  /** A token of a service account. `expiresAt` is in milliseconds since 1970. */
  issueFor(namespace: string, name: string, uid: string, expiresAt: number): string {
    const username = `system:serviceaccount:${namespace}:${name}`;
    return this.#issue({ username, uid, groups: groupsOf(username) }, expiresAt);
  }

  #issue(user: User, expiresAt?: number): string {
    const token = randomBytes(24).toString("base64url");
    this.#issued.set(token, { user, expiresAt });
    return token;
  }

  /** Makes every token of the user worthless: its next request is answered with a 401. */
  revoke(username: string): void {
    this.#lasting.delete(username);
    for (const [token, { user }] of this.#issued) if (user.username === username) this.#issued.delete(token);
  }

  /** Whose token it is; undefined when it is unknown or has expired. */
  authenticate(token: string): User | undefined {
    const issued = this.#issued.get(token);
    if (issued?.expiresAt !== undefined && issued.expiresAt <= Date.now()) return undefined;
    return issued?.user;
  }
}

/** The groups that the API server gives a user of that name. */
function groupsOf(username: string): readonly string[] {
  const [, namespace] = /^system:serviceaccount:([^:]+):[^:]+$/.exec(username) ?? [];
  if (namespace === undefined) return ["system:masters", "system:authenticated"];
  return ["system:serviceaccounts", `system:serviceaccounts:${namespace}`, "system:authenticated"];
}
