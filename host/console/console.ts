import { assetOf, html } from "./assets.ts";
import { cleaned } from "./clean.ts";
import { ObjectView } from "./object-view.ts";
import { openApi } from "./openapi.ts";
import { runbook } from "./runbook.ts";
import type { Answers } from "./schema.ts";
import type { ConsoleSources } from "./sources.ts";
import { maxStreams, Streams } from "./stream.ts";
import { Views } from "./views.ts";

/** Handles requests below `/ui`; they are authenticated and authorized. It writes nothing. */
export type Console = (request: Request) => Promise<Response>;

/** A text is JSON already. */
type Answer = (query: URLSearchParams) => unknown;

const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

/** An answer is for the user who asked: nothing keeps it. */
const headers = {
  "Content-Security-Policy": policy,
  "Cache-Control": "no-store",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
};

export function createConsole(sources: ConsoleSources, version: string): Console {
  const views = new Views(sources);
  const objects = new ObjectView(sources);
  const streams = new Streams(sources);
  const answers: Readonly<Record<string, Answer>> = {
    overview: () => views.overview(),
    leadership: () => views.leadership(),
    controllers: () => views.controllers(),
    services: (query) => views.listServices(query),
    nodes: (query) => views.listNodes(query),
    cloud: () => views.cloud(),
    writes: (query) => views.listWrites(query),
    runbook: (query) => runbookOf(query.get("row")),
    plan: (query) => sources.plans.answer(query.has("new")),
    "openapi.json": () => openApi(version),
  };

  const api = async ([name = "", ...rest]: readonly string[], query: URLSearchParams): Promise<Response> => {
    if (rest.length > 0 && (name === "services" || name === "nodes")) {
      const found = await objects.of([name, ...rest]);
      return found === undefined
        ? json(404, { error: `${name} ${rest.join("/")} is not known here` })
        : json(200, found);
    }
    const answer = Object.hasOwn(answers, name) && rest.length === 0 ? answers[name] : undefined;
    if (answer === undefined) return json(404, { error: "unknown view; see /ui/api/openapi.json" });
    const found = await views.answer(() => answer(query));
    return typeof found === "string" ? text(200, "application/json", found) : json(200, found);
  };

  const stream = (request: Request): Response => {
    const events = streams.open(request.signal, request.headers.get("last-event-id") ?? undefined);
    if (events === undefined) {
      const error = `${maxStreams} pages are open already; this one reads on a timer`;
      return json(503, { error }, { "Retry-After": "30" });
    }
    return new Response(events, { headers: { ...headers, "Content-Type": "text/event-stream" } });
  };

  return async (request) => {
    if (request.method !== "GET" && request.method !== "HEAD")
      return json(405, { error: "the console is read-only" }, { Allow: "GET, HEAD" });
    const { pathname, searchParams } = new URL(request.url);
    const path = partsOf(pathname);
    if (path === undefined) return json(400, { error: "the path is not valid" });
    const [first = "overview", ...rest] = path;
    if (first === "api" && rest[0] === "stream") return stream(request);
    if (first === "api") return api(rest, searchParams);
    const asset = path.length === 1 ? await assetOf(first) : undefined;
    if (asset !== undefined) return text(200, asset.type, asset.text);
    if (searchParams.get("format") === "json") return api([first, ...rest], searchParams);
    return text(Object.hasOwn(answers, first) ? 200 : 404, "text/html; charset=utf-8", html);
  };
}

/** The row of that name, or all. */
function runbookOf(name: string | null): Answers["runbook"] {
  const rows = Object.entries(runbook).map(([row, remedy]) => ({ name: row, remedy }));
  return { rows: name === null ? rows : rows.filter((row) => row.name === name) };
}

/** The segments below `/ui/`; undefined where one cannot be decoded. */
function partsOf(pathname: string): readonly string[] | undefined {
  try {
    return pathname
      .split("/")
      .slice(2)
      .filter((part) => part !== "")
      .map(decodeURIComponent);
  } catch {
    return undefined;
  }
}

const text = (status: number, type: string, body: string, more: Record<string, string> = {}): Response =>
  new Response(body, { status, headers: { ...headers, "Content-Type": type, ...more } });

const json = (status: number, answer: unknown, more: Record<string, string> = {}): Response =>
  text(status, "application/json", JSON.stringify(cleaned(answer)), more);
