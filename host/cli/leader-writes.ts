import { readFile } from "node:fs/promises";

import { Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { CodedError, type Explanation, messageOf } from "cloud-controller-host/sdk";

import { concerns } from "../process/writes/record.ts";

const limitMs = 10_000;
/** Latest writes shown. */
const maxWrites = 5;

const page = Type.Object({
  writes: Type.Array(
    Type.Object({
      at: Type.String(),
      operation: Type.String(),
      resource: Type.String(),
      causes: Type.Array(Type.String()),
      error: Type.Optional(Type.String()),
      correlationId: Type.Optional(Type.String()),
    }),
  ),
});

export interface LeaderOptions {
  /** The secure port, such as `https://127.0.0.1:10258` behind `kubectl port-forward`. */
  readonly url: string;
  /** With a bearer token for `/statusz/*`. */
  readonly tokenFile: string | undefined;
}

/** The latest writes that the leader made for an object like `Service default/web`. Throws with the URL. */
export async function leaderWrites({ url, tokenFile }: LeaderOptions, subject: string): Promise<Explanation> {
  try {
    const { hostname, origin } = new URL(url);
    const token = tokenFile === undefined ? undefined : (await readFile(tokenFile, "utf8")).trim();
    const response = await fetch(`${origin}/statusz/writes`, {
      headers: token === undefined ? {} : { Authorization: `Bearer ${token}` },
      redirect: "error",
      signal: AbortSignal.timeout(limitMs),
      // The host's own certificate is self-signed; a port of this machine has no network in between.
      tls: { rejectUnauthorized: !["127.0.0.1", "[::1]", "localhost"].includes(hostname) },
    });
    if (response.status !== 200) throw new CodedError("LeaderUnreachable", `it answers with ${response.status}`);
    const { writes } = Value.Parse(page, await response.json());
    const about = writes.filter((write) => concerns(write, subject));
    return {
      title: about.length === 0 ? "no recent write of the leader is about it" : "latest writes of the leader",
      facts: about.slice(-maxWrites).map(({ at, operation, resource, error, correlationId }) => ({
        name: at,
        value:
          error?.includes(resource) === true
            ? error
            : `${operation} ${resource}: ${error ?? "succeeded"}${correlationId === undefined ? "" : ` (correlation ID ${correlationId})`}`,
      })),
    };
  } catch (error) {
    throw new CodedError("LeaderUnreachable", `--leader-url=${url}: ${messageOf(error)}`, { cause: error });
  }
}
