import { authenticate } from "../access/authentication.ts";
import type { Access } from "../access/rules.ts";
import { accessDenied, noSuchPath } from "../access/status.ts";
import type { Tokens, User } from "../access/tokens.ts";
import { type Faults, faultyReply } from "../faults.ts";
import type { Cluster } from "../registry/cluster.ts";
import type { RecordedRequest, RequestLog } from "../request-log.ts";
import { type AdmissionWebhook, handleAdmitted, webhooksFor } from "./admission.ts";
import type { Api } from "./api.ts";
import type { Documents } from "./documents.ts";
import { errorReply, plainReply } from "./replies.ts";
import type { Reviews } from "./reviews.ts";
import { type ApiPath, parsePath, targetOf } from "./target.ts";

export interface PipelineParts {
  readonly cluster: Cluster;
  readonly api: Api;
  readonly documents: Documents;
  readonly reviews: Reviews;
  readonly tokens: Tokens;
  readonly faults: Faults;
  readonly requests: RequestLog;
  /** Decides each request; `client` is the last part of its user agent. */
  readonly authorizes: (access: Access, client: string) => boolean;
  readonly webhooks: () => readonly AdmissionWebhook[];
  /** Aborts when the server closes. */
  readonly signal: AbortSignal;
}

interface Incoming {
  readonly request: Request;
  readonly pathname: string;
  readonly query: URLSearchParams;
  readonly user: User;
  /** Undefined for a path that does not name a resource. */
  readonly path: ApiPath | undefined;
}

const healthPaths = new Set(["/healthz", "/livez", "/readyz"]);

/** The stages of every request: authentication, log, injected faults, authorization, handler. */
export class RequestPipeline {
  readonly #parts: PipelineParts;

  constructor(parts: PipelineParts) {
    this.#parts = parts;
  }

  async respond(request: Request): Promise<Response> {
    const { pathname, search, searchParams } = new URL(request.url);
    const { requests, tokens } = this.#parts;
    const user = attempt(() => authenticate(tokens, request));
    const path = parsePath(request.method, pathname, searchParams);
    const entry = entryOf(request, `${pathname}${search}`, user, path);
    const replied = requests.record(entry);
    const handle = async (): Promise<Response> => {
      if (user instanceof Error) throw user;
      return this.#handle({ request, pathname, query: searchParams, user, path });
    };
    const reply = await this.#withFaults(request, entry, handle).catch(errorReply);
    replied(reply.status);
    return reply;
  }

  async #handle({ request, pathname, query, user, path }: Incoming): Promise<Response> {
    const { api, authorizes, cluster, documents, reviews } = this.#parts;
    const access = accessOf(request, pathname, user, path, query);
    const client = request.headers.get("user-agent")?.split("/").at(-1) ?? "";
    if (!authorizes(access, client)) throw accessDenied(access);
    if (healthPaths.has(pathname)) return plainReply("ok");
    const accept = request.headers.get("accept") ?? "";
    if (path === undefined) return documents.answer(pathname, accept) ?? errorReply(noSuchPath());
    const review = await reviews.answer(path, request, user);
    if (review !== undefined) return review;
    const target = targetOf(cluster, path);
    const webhooks = webhooksFor(this.#parts.webhooks(), target);
    if (webhooks.length > 0) return handleAdmitted(api, webhooks, { request, query, target }, user);
    return api.handle({ request, query, target });
  }

  async #withFaults(request: Request, entry: RecordedRequest, handle: () => Promise<Response>): Promise<Response> {
    const { faults, signal } = this.#parts;
    if (faults.idle) return handle();
    const ends = AbortSignal.any([signal, request.signal]);
    await faults.hold(ends);
    const fault = faults.take(entry);
    if (fault === undefined) return handle();
    if (fault.afterwards) await handle();
    return faultyReply(fault.effect, ends);
  }
}

function attempt<T>(action: () => T): T | Error {
  try {
    return action();
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function accessOf(
  { method }: Request,
  path: string,
  { username, groups }: User,
  resource: ApiPath | undefined,
  query: URLSearchParams,
): Access {
  const subject = { username, groups };
  if (resource === undefined)
    return { ...subject, verb: method.toLowerCase(), path, group: "", resource: "", namespace: "", name: "" };
  const { verb = method.toLowerCase(), group, plural, subresource, namespace } = resource;
  // A list of one object by its name is authorized as a read of it. Source: apiserver `request.RequestInfo`.
  const [, selected = ""] = /^metadata\.name=([^,=!]+)$/u.exec(query.get("fieldSelector") ?? "") ?? [];
  const name = resource.name || selected;
  const qualified = subresource === "" ? plural : `${plural}/${subresource}`;
  return { ...subject, verb, path: "", group, resource: qualified, namespace, name };
}

function entryOf(request: Request, path: string, user: User | Error, known: ApiPath | undefined): RecordedRequest {
  return {
    method: request.method,
    path,
    verb: known?.verb ?? "",
    resource: known?.plural ?? "",
    subresource: known?.subresource ?? "",
    namespace: known?.namespace ?? "",
    name: known?.name ?? "",
    userAgent: request.headers.get("user-agent") ?? "",
    username: user instanceof Error ? "" : user.username,
    status: undefined,
  };
}
