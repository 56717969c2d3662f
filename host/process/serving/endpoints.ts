import { Elysia } from "elysia";

import type { Exposition } from "../metrics/exposition.ts";
import type { MetricsRegistry } from "../metrics/metrics.ts";
import type { SliMetrics } from "../metrics/sli.ts";
import type { Profiling } from "../profiling/profiling.ts";
import { type HealthChecks, healthEndpoints } from "./health.ts";
import { zPage, type ZPages } from "./z-pages.ts";

/** A page: text as it is, anything else as JSON. */
type Page = string | object;

/** Content of the endpoints. Each provider is called for every request. */
export interface EndpointProviders {
  readonly health: HealthChecks;
  readonly metrics: MetricsRegistry;
  readonly slis: SliMetrics;
  readonly configz: () => Page;
  /** Without it the path is not served; `flagz` likewise. */
  readonly statusz?: (() => Page) | undefined;
  readonly flagz?: (() => Page) | undefined;
  /** Content of `/statusz` and `/flagz` in the form of Kubernetes components; without it they have this program's own form. */
  readonly zPages?: ZPages | undefined;
  /** The latest writes, below `/statusz`. */
  readonly writes?: (() => Page) | undefined;
  /** Handler of `/ui/`; without it the path is not served. */
  readonly console?: ((request: Request) => Promise<Response>) | undefined;
  /** Handler of `/debug/`; without it the path is not served. */
  readonly debug?: DebugProviders | undefined;
}

interface DebugProviders {
  readonly profiling: Profiling;
  /** Sets the log's verbosity: `PUT /debug/flags/v`. */
  readonly setVerbosity: (level: number) => void;
}

export interface Endpoints {
  /** Answers unknown paths with 404. Rejects when a provider throws. */
  handle(request: Request): Promise<Response>;
}

/** The HTTP endpoints of the process. Source of paths and formats: kubernetes/apiserver and component-base. */
export function createEndpoints(providers: EndpointProviders): Endpoints {
  const failures = new WeakMap<Request, unknown>();
  const app = new Elysia({ strictPath: true });
  app.onError(({ code, request, error }) => {
    if (code === "NOT_FOUND") return notFound();
    failures.set(request, error);
    return undefined;
  });
  addHealth(app, providers.health);
  addMetrics(app, providers);
  app.all("/configz", () => page(providers.configz()));
  for (const [path, kind, provider] of [
    ["/statusz", "Statusz", providers.statusz],
    ["/flagz", "Flagz", providers.flagz],
  ] as const) {
    if (provider === undefined) continue;
    app.all(path, ({ request }) => {
      const accept = request.headers.get("accept") ?? "";
      return (providers.zPages && zPage(kind, accept, providers.zPages)) ?? page(provider());
    });
  }
  const { writes } = providers;
  if (writes !== undefined) app.all("/statusz/writes", () => page(writes()));
  const { console } = providers;
  if (console !== undefined)
    for (const path of ["/ui", "/ui/", "/ui/*"]) app.all(path, ({ request }) => console(request), { parse: "none" });
  if (providers.debug !== undefined) addDebug(app, providers.debug);
  return {
    async handle(request) {
      const response = await app.handle(request);
      const failure = failures.get(request);
      if (failure !== undefined) throw failure;
      if (!response.headers.has("cache-control")) response.headers.set("cache-control", "no-cache, private");
      return response;
    },
  };
}

/** `/healthz`, `/livez` and `/readyz`, each with one path per check. */
function addHealth(app: Elysia, health: HealthChecks): void {
  for (const endpoint of healthEndpoints) {
    app.all(`/${endpoint}`, ({ request }) => health.respond(endpoint, new URL(request.url).searchParams));
    app.all(`/${endpoint}/:check`, async ({ params: { check } }) => {
      const response = await health.respondOne(endpoint, check);
      return response ?? notFound();
    });
  }
}

function addMetrics(app: Elysia, { metrics, slis }: EndpointProviders): void {
  const accept = (request: Request): string | undefined => request.headers.get("accept") ?? undefined;
  for (const path of ["/metrics", "/metrics/v2"])
    app.all(path, async ({ request }) => exposed(await metrics.render(accept(request))));
  app.all("/metrics/slis", async ({ request }) => {
    if (request.method !== "DELETE") return exposed(await slis.render(accept(request)));
    slis.reset();
    return text(200, "metrics reset\n");
  });
}

/** Source: kubernetes/apiserver `server/routes/profiling.go` and `flags.go`. */
function addDebug(app: Elysia, { profiling, setVerbosity }: DebugProviders): void {
  app.all("/debug/pprof", () => new Response(null, { status: 302, headers: { Location: "/debug/pprof/" } }));
  app.all("/debug/pprof/", ({ request }) => profiling.respond("", request));
  app.all("/debug/pprof/:name", ({ request, params: { name } }) => profiling.respond(name, request));
  for (const path of ["/debug/flags", "/debug/flags/"]) app.all(path, () => text(200, flagIndex));
  app.all(
    "/debug/flags/v",
    async ({ request }) => {
      if (request.method !== "PUT") return text(406, "unrecognized http method\n");
      const level = (await request.text()).trim();
      if (!/^-?\d{1,9}$/.test(level))
        return text(400, `the verbosity must be a whole number, got ${JSON.stringify(level.slice(0, 40))}\n`);
      setVerbosity(Number(level));
      return text(200, `successfully set klog.logging.verbosity to ${level}\n`);
    },
    { parse: "none" },
  );
}

const flagIndex = "/debug/flags/\n\n  v: the log's verbosity; PUT a whole number to /debug/flags/v\n";

const noSniff = { "X-Content-Type-Options": "nosniff" };

const text = (status: number, body: string): Response =>
  new Response(body, { status, headers: { "Content-Type": "text/plain; charset=utf-8", ...noSniff } });

const notFound = (): Response => text(404, "404 page not found\n");

const page = (shown: Page): Response =>
  typeof shown === "string"
    ? text(200, shown)
    : new Response(JSON.stringify(shown), { headers: { "Content-Type": "application/json", ...noSniff } });

const exposed = ({ body, contentType }: Exposition): Response =>
  new Response(body, { headers: { "Content-Type": contentType } });
