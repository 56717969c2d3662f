import { type Access, isAllowed } from "../access/rules.ts";
import { accessDenied, noSuchPath, StatusError, unauthorized } from "../access/status.ts";
import { groupsOf, type Tokens, type User } from "../access/tokens.ts";
import { type Faults, faultyReply } from "../faults.ts";
import type { Cluster } from "../registry/cluster.ts";
import type { RecordedRequest, RequestLog } from "../request-log.ts";
import { type AdmissionWebhook, handleAdmitted, webhooksFor } from "./admission.ts";
import type { Api } from "./api.ts";
import type { Documents } from "./documents.ts";
import { errorReply, plainReply } from "./replies.ts";
import type { Reviews } from "./reviews.ts";
import { type ApiPath, createsByName, parsePath, targetOf } from "./target.ts";

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
    const creation = { ...access, verb: "create" };
    if (createsByName(request, target) && !authorizes(creation, client)) throw accessDenied(creation);
    const call = { request, query, target };
    const webhooks = webhooksFor(this.#parts.webhooks(), call);
    return webhooks.length > 0 ? handleAdmitted(api, webhooks, call, user) : api.handle(call);
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

const anonymous: User = { username: "system:anonymous", groups: ["system:unauthenticated"] };

/**
 * The user of a request: that of its bearer token, the anonymous user without one, or the user that an `Impersonate-User`
 * header names. Throws a 401 for an unknown token and a 403 for an impersonation that the caller is not allowed.
 */
function authenticate(tokens: Tokens, { headers }: Request): User {
  const header = headers.get("authorization");
  const [, token = ""] = /^Bearer\s+(\S+)$/iu.exec(header ?? "") ?? [];
  const user = header === null ? anonymous : tokens.authenticate(token);
  if (user === undefined) throw unauthorized();
  return impersonated(user, headers);
}

/** Source: Kubernetes `endpoints/filters/impersonation.go`. */
function impersonated(user: User, headers: Headers): User {
  const username = headers.get("impersonate-user");
  const groups = headers.get("impersonate-group")?.split(/,\s*/u) ?? [];
  if (username === null) {
    if (groups.length === 0) return user;
    throw new StatusError(400, "BadRequest", `requested [{Group  ${groups[0]}}] without impersonating a user`);
  }
  assertMayImpersonate(user, "users", username);
  for (const group of groups) assertMayImpersonate(user, "groups", group);
  const uid = headers.get("impersonate-uid");
  const identity = { username, ...(uid === null ? {} : { uid }) };
  if (username === anonymous.username) return { ...identity, groups: anonymous.groups };
  const implied = groups.length === 0 ? groupsOf(username, []) : groups;
  return { ...identity, groups: [...new Set([...implied, "system:authenticated"])] };
}

function assertMayImpersonate({ username, groups }: User, resource: string, name: string): void {
  const access = { username, groups, verb: "impersonate", path: "", group: "", resource, namespace: "", name };
  if (isAllowed(access)) return;
  const action = `User "${username}" cannot impersonate resource "${resource}" in API group "" at the cluster scope`;
  throw new StatusError(403, "Forbidden", `${resource} "${name}" is forbidden: ${action}`, { name, kind: resource });
}
