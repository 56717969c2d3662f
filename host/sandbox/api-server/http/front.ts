import { type Faults, faultyReply } from "../faults.ts";
import type { Cluster } from "../registry/cluster.ts";
import type { RecordedRequest, RequestLog } from "../request-log.ts";
import { noSuchPath, unauthorized } from "../status.ts";
import type { Tokens, User } from "../tokens.ts";
import type { Api } from "./api.ts";
import type { Documents } from "./documents.ts";
import { errorReply, plainReply } from "./replies.ts";
import type { Reviews } from "./reviews.ts";
import { type ApiPath, parsePath, targetOf } from "./target.ts";

export interface FrontParts {
  readonly cluster: Cluster;
  readonly api: Api;
  readonly documents: Documents;
  readonly reviews: Reviews;
  readonly tokens: Tokens;
  readonly faults: Faults;
  readonly requests: RequestLog;
  /** Aborts when the server closes. */
  readonly signal: AbortSignal;
}

interface Incoming {
  readonly request: Request;
  readonly pathname: string;
  readonly query: URLSearchParams;
  readonly user: User | undefined;
  /** Undefined for a path that is not one of the API. */
  readonly path: ApiPath | undefined;
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
    const { requests, tokens } = this.#parts;
    const user = authenticate(tokens, request);
    const path = parsePath(request.method, pathname, searchParams);
    const entry = entryOf(request, `${pathname}${search}`, user, path);
    const replied = requests.record(entry);
    const carryOut = (): Promise<Response> => this.#carryOut({ request, pathname, query: searchParams, user, path });
    const reply = await this.#withFaults(request, entry, carryOut).catch(errorReply);
    replied(reply.status);
    return reply;
  }

  async #carryOut({ request, pathname, query, user, path }: Incoming): Promise<Response> {
    const { api, cluster, documents, reviews } = this.#parts;
    if (healthPaths.has(pathname)) return plainReply("ok");
    if (user === undefined) throw unauthorized();
    const accept = request.headers.get("accept") ?? "";
    if (path === undefined) return documents.answer(pathname, accept) ?? errorReply(noSuchPath());
    const review = await reviews.answer(path, request, user);
    return review ?? api.handle({ request, query, target: targetOf(cluster, path) });
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

function entryOf(request: Request, path: string, user: User | undefined, known: ApiPath | undefined): RecordedRequest {
  return {
    method: request.method,
    path,
    verb: known?.verb ?? "",
    resource: known?.plural ?? "",
    subresource: known?.subresource ?? "",
    namespace: known?.namespace ?? "",
    name: known?.name ?? "",
    userAgent: request.headers.get("user-agent") ?? "",
    username: user?.username ?? "",
    status: undefined,
  };
}
