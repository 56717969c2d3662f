import { setTimeout as sleep } from "node:timers/promises";

import { parseArmPath, pathIn } from "../../arm/resource-id.ts";
import { parseJson } from "../../json.ts";
import { ArmFault, type ArmReply } from "../faults.ts";
import type { Faults, RateLimiter } from "../faults.ts";
import type { SubscriptionState } from "../state/subscription-state.ts";
import { answerArm } from "./arm-service.ts";
import type { ServingCertificate } from "./certificate.ts";
import { loginFailure, type LoginService } from "./identity.ts";
import { simulatedRequest } from "./request.ts";

/** A request as received. */
export interface LoggedRequest {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly ifMatch: string | undefined;
  readonly ifNoneMatch: string | undefined;
  readonly userAgent: string | undefined;
  /** True with an auxiliary token, of a second tenant. */
  readonly auxiliary: boolean;
  readonly body: unknown;
  readonly status: number;
  /** When it was received and when the reply was sent, on the monotonic clock. */
  readonly begunMs: number;
  readonly endedMs: number;
}

export interface ServerParts {
  readonly state: SubscriptionState;
  readonly login: LoginService;
  readonly faults: Faults;
  readonly limiter: RateLimiter | undefined;
  readonly pageSize: number;
  readonly ignoresIfNoneMatch: boolean;
  readonly certificate: ServingCertificate;
  /** Delay of every reply in milliseconds; evaluated for each request. */
  readonly latencyMs: () => number;
  readonly log: (request: LoggedRequest) => void;
}

export interface SimulatorServer {
  readonly origin: string;
  readonly underway: () => number;
  stop(): Promise<void>;
}

/** Serves ARM and the login service over TLS on a free loopback port. */
export function serveSimulator(parts: ServerParts): SimulatorServer {
  const { certificate } = parts;
  let underway = 0;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    // Otherwise Bun prints each connection that a fault breaks off.
    development: false,
    // A latency, or a busy machine, may keep a connection idle for longer than Bun's default of 10 s.
    idleTimeout: 0,
    tls: { cert: certificate.certificate, key: certificate.key },
    async fetch(request) {
      underway += 1;
      try {
        return await handle(request, parts);
      } finally {
        underway -= 1;
      }
    },
  });
  return {
    origin: `https://127.0.0.1:${server.port}`,
    underway: () => underway,
    stop: () => server.stop(true),
  };
}

async function handle(request: Request, parts: ServerParts): Promise<Response> {
  const url = new URL(request.url);
  const begunMs = performance.now();
  const latencyMs = parts.latencyMs();
  if (latencyMs > 0) await sleep(latencyMs, undefined, { signal: request.signal });
  await parts.faults.held("request", request.method, url.pathname);
  const body = request.method === "GET" ? "" : await request.clone().text();
  const done = await respond(request, url, body, parts);
  await parts.faults.held("response", request.method, url.pathname);
  const response = lostReply(done, request.method, url.pathname, parts.faults);
  parts.log({
    method: request.method,
    path: url.pathname,
    query: url.search,
    ifMatch: request.headers.get("if-match") ?? undefined,
    ifNoneMatch: request.headers.get("if-none-match") ?? undefined,
    userAgent: request.headers.get("user-agent") ?? undefined,
    auxiliary: request.headers.has("x-ms-authorization-auxiliary"),
    body: parseJson(body),
    status: response.status,
    begunMs,
    endedMs: performance.now(),
  });
  return response;
}

/** The reply to a request that was carried out, broken off in the middle. */
function lostReply(done: Response, method: string, path: string, faults: Faults): Response {
  const instead = faults.take("response", method, path);
  if (instead !== undefined) return renderFault(instead);
  if (faults.take("connection", method, path) === undefined) return done;
  // The head and a first byte are sent; Bun then closes the socket.
  const breaking = new ReadableStream<Uint8Array>({
    async pull(controller) {
      controller.enqueue(new TextEncoder().encode("{"));
      await sleep(5);
      controller.error(new Error("a simulated failure breaks the connection"));
    },
  });
  return new Response(breaking, { status: done.status, headers: done.headers });
}

async function respond(request: Request, url: URL, body: string, parts: ServerParts): Promise<Response> {
  try {
    const fault = parts.faults.take("request", request.method, url.pathname);
    if (fault !== undefined) throw fault;
    const login = await parts.login.answer(request, url);
    if (login !== undefined) return login;
    parts.login.checkBearer(request.headers.get("authorization"), url.origin);
    const allowance = parts.limiter?.take(request.method);
    const path = parseArmPath(pathIn(url));
    if (path === undefined) throw new ArmFault(404, "InvalidRequestUri", `'${url.pathname}' is not a resource path.`);
    const operationFault =
      request.method === "GET" ? undefined : parts.faults.take("operation", request.method, url.pathname);
    const { pageSize, ignoresIfNoneMatch } = parts;
    const simulated = simulatedRequest(request, {
      path,
      body: parseJson(body),
      pageSize,
      ignoresIfNoneMatch,
      operationFault,
    });
    return render(answerArm(simulated, parts.state), allowance);
  } catch (error) {
    if (error instanceof ArmFault) return loginFailure(url.pathname, error) ?? renderFault(error);
    throw error;
  }
}

const requestIds = (): Readonly<Record<string, string>> => ({
  "x-ms-request-id": crypto.randomUUID(),
  "x-ms-correlation-request-id": crypto.randomUUID(),
});

function render({ status, body, headers }: ArmReply, allowance: Readonly<Record<string, string>> = {}): Response {
  const text = body === undefined ? null : typeof body === "string" ? body : JSON.stringify(body);
  const type: Record<string, string> = text === null ? {} : { "content-type": "application/json; charset=utf-8" };
  return new Response(text, { status, headers: { ...requestIds(), ...allowance, ...type, ...headers } });
}

function renderFault({ status, code, message, headers }: ArmFault): Response {
  return Response.json(
    { error: { code, message } },
    { status, headers: { ...requestIds(), "x-ms-error-code": code, ...headers } },
  );
}
