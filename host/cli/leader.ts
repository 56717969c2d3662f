import { readFile } from "node:fs/promises";

import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { CodedError, type Explanation, messageOf } from "cloud-controller-host/sdk";

import { isMachineFlag, withoutBrackets } from "../bundle/bundle.ts";
import { parse } from "../config/parse/parse.ts";
import { isSecretKey } from "../process/log/redact.ts";
import { concerns } from "../process/writes/record.ts";

const limitMs = 10_000;
/** Flags about the leader's pace and safety, which do not change what it does with an object. */
const paceFlags = /^(?:kube-api-.*|plugin-.*|shadow.*|disable-http2-serving|generation-drain-timeout)$/u;
/** Latest writes shown. */
const maxWrites = 5;
/** Size limit of a decompressed reply: room for the thousand writes that the record keeps. */
const maxReplyBytes = 32 * 1024 * 1024;

const writesPage = Type.Object({
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

const flagsPage = Type.Object({ flags: Type.Record(Type.String(), Type.String()) });

export interface LeaderOptions {
  /** The secure port, such as `https://127.0.0.1:10258` behind `kubectl port-forward`. */
  readonly url: string;
  /** With a bearer token for `/statusz/writes` and `/flagz`. */
  readonly tokenFile: string | undefined;
}

/** The latest writes that the leader made for an object like `Service default/web`. Throws with the URL. */
export async function leaderWrites(leader: LeaderOptions, subject: string): Promise<Explanation> {
  const { writes } = await ask(leader, "/statusz/writes", "application/json", writesPage);
  const about = writes.filter((write) => concerns(write, subject));
  return {
    title: about.length === 0 ? "no recent writes by the leader" : "latest writes by the leader",
    facts: about.slice(-maxWrites).map(({ at, operation, resource, error, correlationId }) => ({
      name: at,
      value:
        error?.includes(resource) === true
          ? error
          : `${operation} ${resource}: ${error ?? "succeeded"}${correlationId === undefined ? "" : ` (correlation ID ${correlationId})`}`,
    })),
  };
}

/**
 * The flags that decide what the leader does, where they differ from the defaults and are not among those given. Flags
 * that name files, ports and identities are of its machine, and flags of another version are unknown here. Throws with
 * the URL.
 */
export async function leaderFlags(leader: LeaderOptions, given: readonly string[]): Promise<readonly string[]> {
  const { flags } = await ask(leader, "/flagz", "application/json;g=config.k8s.io;v=v1beta1;as=flagz", flagsPage);
  const own = new Set(given.map((flag) => flag.replace(/^--?/u, "").replace(/=.*$/su, "").replaceAll("_", "-")));
  const defaults = parse([]);
  return (defaults.kind === "run" ? defaults.settings : []).flatMap(({ name, text }) => {
    const its = flags[name];
    const isLocal = own.has(name) || isMachineFlag(name) || paceFlags.test(name) || isSecretKey(name);
    if (its === undefined || its === text || isLocal) return [];
    return [`--${name}=${withoutBrackets(its)}`];
  });
}

async function ask<T extends TSchema>(
  { url, tokenFile }: LeaderOptions,
  path: string,
  accept: string,
  schema: T,
): Promise<Static<T>> {
  try {
    const { origin, isLocal } = addressOf(url, tokenFile);
    const token = tokenFile === undefined ? undefined : (await readFile(tokenFile, "utf8")).trim();
    const response = await fetch(`${origin}${path}`, {
      headers: { Accept: accept, ...(token !== undefined && { Authorization: `Bearer ${token}` }) },
      redirect: "error",
      signal: AbortSignal.timeout(limitMs),
      // The host's own certificate is self-signed, and a connection to a local port does not cross a network.
      tls: { rejectUnauthorized: !isLocal },
      ...(isLocal && { proxy: false }),
    });
    if (response.status !== 200)
      throw new CodedError("LeaderUnreachable", `${path} returned ${response.status}${hints[response.status] ?? ""}`);
    return Value.Parse(schema, JSON.parse(await textOf(response)));
  } catch (error) {
    throw new CodedError("LeaderUnreachable", `--leader-url=${url}: ${messageOf(error)}`, { cause: error });
  }
}

const hints: Readonly<Record<number, string>> = {
  401: "; name a file with a bearer token: --leader-token-file",
  403: "; name a token that may read this path: --leader-token-file",
};

/** Throws for what cannot be a host's secure port, and for a token that would cross a network unencrypted. */
function addressOf(url: string, tokenFile: string | undefined): { readonly origin: string; readonly isLocal: boolean } {
  const { protocol, hostname, origin } = URL.parse(url) ?? { protocol: "", hostname: "", origin: "" };
  if (protocol !== "https:" && protocol !== "http:")
    throw new CodedError("LeaderUnreachable", "must be the URL of a secure port, such as https://127.0.0.1:10258");
  const isLocal = ["127.0.0.1", "[::1]", "localhost"].includes(hostname);
  if (protocol === "http:" && tokenFile !== undefined && !isLocal)
    throw new CodedError("LeaderUnreachable", "the token of --leader-token-file is sent over https only");
  return { origin, isLocal };
}

async function textOf({ body }: Response): Promise<string> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of body ?? []) {
    bytes += piece.length;
    if (bytes > maxReplyBytes)
      throw new CodedError("LeaderUnreachable", `its reply is larger than ${maxReplyBytes} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString();
}
