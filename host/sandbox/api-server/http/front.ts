import { type Faults, faultyReply } from "../faults.ts";
import type { Cluster } from "../registry/cluster.ts";
import type { RecordedRequest, RequestLog } from "../request-log.ts";
import { unauthorized } from "../status.ts";
import type { Tokens, User } from "../tokens.ts";
import type { Api } from "./api.ts";
import { errorReply, plainReply } from "./replies.ts";
import { parseTarget, type Target } from "./target.ts";

export interface FrontParts {
  readonly cluster: Cluster;
  readonly api: Api;
  readonly tokens: Tokens;
  readonly faults: Faults;
  readonly requests: RequestLog;
  /** Aborts when the server closes. */
  readonly signal: AbortSignal;
}

const healthPaths = new Set(["/healthz", "/livez", "/readyz"]);

/** What every request goes through: who it is from, what it is for, what was made to go wrong, and the log. */
export class Front {
  readonly #parts: FrontParts;

  constructor(parts: FrontParts) {
    this.#parts = parts;
  }

  async answer(request: Request): Promise<Response> {
    const { pathname, search, searchParams } = new URL(request.url);
    const { api, cluster, requests, tokens } = this.#parts;
    const user = authenticate(tokens, request);
    const target = attempt(() => parseTarget(cluster, request.method, pathname, searchParams));
    const entry = entryOf(request, `${pathname}${search}`, user, target);
    const replied = requests.record(entry);
    const carryOut = async (): Promise<Response> => {
      if (healthPaths.has(pathname)) return plainReply("ok");
      if (user === undefined) throw unauthorized();
      if (target instanceof Error) throw target;
      return api.handle({ request, query: searchParams, target });
    };
    const reply = await this.#withFaults(request, entry, carryOut).catch(errorReply);
    replied(reply.status);
    return reply;
  }

  async #withFaults(request: Request, entry: RecordedRequest, carryOut: () => Promise<Response>): Promise<Response> {
    const { faults, signal } = this.#parts;
    if (faults.idle) return carryOut();
    const ends = AbortSignal.any([signal, request.signal]);
    await faults.hold(ends);
    const fault = faults.take(entry);
    if (fault === undefined) return carryOut();
    if (fault.afterwards) await carryOut();
    return faultyReply(fault.effect, ends);
  }
}

function authenticate(tokens: Tokens, request: Request): User | undefined {
  const [, token = ""] = /^Bearer\s+(\S+)$/i.exec(request.headers.get("authorization") ?? "") ?? [];
  return tokens.authenticate(token);
}

function attempt<T>(read: () => T): T | Error {
  try {
    return read();
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function entryOf(request: Request, path: string, user: User | undefined, target: Target | Error): RecordedRequest {
  const known = target instanceof Error ? undefined : target;
  return {
    method: request.method,
    path,
    verb: known?.verb ?? "",
    resource: known?.registry.resource.plural ?? "",
    subresource: known?.subresource ?? "",
    namespace: known?.namespace ?? "",
    name: known?.name ?? "",
    userAgent: request.headers.get("user-agent") ?? "",
    username: user?.username ?? "",
    status: undefined,
  };
}
