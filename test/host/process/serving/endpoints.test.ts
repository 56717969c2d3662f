import { beforeEach, describe, expect, test } from "bun:test";

import { systemClock } from "../../../../host/async/clock.ts";
import { createLogger, type HostLogger } from "../../../../host/process/log/log.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { SliMetrics } from "../../../../host/process/metrics/sli.ts";
import { createProfiling } from "../../../../host/process/profiling/profiling.ts";
import { createEndpoints, type Endpoints } from "../../../../host/process/serving/endpoints.ts";
import { HealthChecks } from "../../../../host/process/serving/health.ts";
import { rejection } from "../../../kit/rejection.ts";
import { serveLocally } from "../../../kit/serve.ts";

let endpoints: Endpoints;
let health: HealthChecks;
let metrics: MetricsRegistry;
let log: HostLogger;
let state: object;

beforeEach(() => {
  log = createLogger({ format: "text", verbosity: 0, write: () => undefined });
  const slis = new SliMetrics();
  health = new HealthChecks({ clock: systemClock, log, slis });
  metrics = new MetricsRegistry();
  state = { generation: 1 };
  endpoints = createEndpoints({
    health,
    metrics,
    slis,
    configz: () => ({ "cloudcontrollermanager.config.k8s.io": state }),
    statusz: () => state,
    flagz: () => {
      throw new Error("private");
    },
    debug: {
      profiling: createProfiling({ clock: systemClock, maxObjects: () => 0 }),
      setVerbosity: (level) => log.setVerbosity(level),
    },
  });
});

const get = (path: string, init?: RequestInit): Promise<Response> =>
  endpoints.handle(new Request(`https://localhost:10258${path}`, init));

describe("the endpoints", () => {
  test("serve all checks together, and each under its own path", async () => {
    health.addProcess({ name: "leaderElection", check: () => undefined });
    health.replaceGeneration([{ name: "route-controller", check: () => Promise.reject(new Error("no routes")) }]);
    for (const endpoint of ["healthz", "livez", "readyz"]) {
      expect((await get(`/${endpoint}`)).status).toBe(500);
      expect(await (await get(`/${endpoint}?exclude=route-controller`)).text()).toBe("ok");
      expect(await (await get(`/${endpoint}/leaderElection`)).text()).toBe("ok");
      expect(await (await get(`/${endpoint}/route-controller`)).text()).toBe("internal server error: no routes\n");
    }
  });

  test("answer 404 in plain text for every other path", async () => {
    for (const path of [
      "/",
      "/index",
      "/healthz/",
      "/healthz/none",
      "/healthz/%zz",
      "/healthz/a/b",
      "/metrics/x",
      "/debug/controllers/",
    ]) {
      const response = await get(path);
      expect([path, response.status, await response.text()]).toEqual([path, 404, "404 page not found\n"]);
      expect(response.headers.get("content-type")).toBe("text/plain; charset=utf-8");
      expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    }
  });

  test("forbid caching everywhere", async () => {
    for (const path of ["/healthz", "/metrics", "/configz", "/none"])
      expect((await get(path)).headers.get("cache-control")).toBe("no-cache, private");
  });

  test("serve the metrics under both paths, in the requested format", async () => {
    metrics.root.counter({ name: "a_total", help: "h" }).inc();
    const [one, two] = await Promise.all(["/metrics", "/metrics/v2"].map((path) => get(path)));
    expect(one?.headers.get("content-type")).toBe("text/plain; version=0.0.4; charset=utf-8");
    expect(await one?.text()).toContain("a_total 1");
    expect(await two?.text()).toContain("a_total 1");
    const open = await get("/metrics", { headers: { Accept: "application/openmetrics-text" } });
    expect(open.headers.get("content-type")).toStartWith("application/openmetrics-text; version=1.0.0");
  });

  test("serve the results of the health checks, until a DELETE resets them", async () => {
    await get("/readyz");
    const shown = 'kubernetes_healthcheck{name="ping",type="readyz"} 1';
    expect(await (await get("/metrics/slis")).text()).toContain(shown);
    expect(await (await get("/metrics/slis", { method: "DELETE" })).text()).toBe("metrics reset\n");
    expect(await (await get("/metrics/slis")).text()).not.toContain(shown);
  });

  test("serve the current config and status", async () => {
    expect(await (await get("/configz")).json()).toEqual({ "cloudcontrollermanager.config.k8s.io": { generation: 1 } });
    state = { generation: 2 };
    const status = await get("/statusz");
    expect(await status.json()).toEqual({ generation: 2 });
    expect(status.headers.get("content-type")).toBe("application/json");
    expect(status.headers.get("x-content-type-options")).toBe("nosniff");
  });

  test("have no /statusz and no /flagz when the host does not provide them", async () => {
    const without = createEndpoints({ health, metrics, slis: new SliMetrics(), configz: () => ({}) });
    for (const path of ["/statusz", "/flagz"])
      expect((await without.handle(new Request(`https://localhost:10258${path}`))).status).toBe(404);
  });

  test("leave hiding a provider's failure to the server", async () => {
    expect(await rejection(get("/flagz"))).toBe("private");
  });

  test("set the log's verbosity", async () => {
    const put = (body: string, headers = {}): Promise<Response> =>
      get("/debug/flags/v", { method: "PUT", body, headers });
    expect(await (await put("4\n")).text()).toBe("successfully set klog.logging.verbosity to 4\n");
    expect(log.verbosity).toBe(4);
    expect((await put("2", { "Content-Type": "application/json" })).status).toBe(200);
    expect((await put("loud")).status).toBe(400);
    expect((await get("/debug/flags/v")).status).toBe(406);
    expect(log.verbosity).toBe(2);
  });

  test("are reached through the server, a provider's failure included", async () => {
    const served = await serveLocally({
      log,
      handler: (request) => endpoints.handle(request),
    });
    const over = (path: string): Promise<Response> =>
      fetch(`https://127.0.0.1:${served.port}${path}`, { keepalive: false, tls: { rejectUnauthorized: false } });
    expect(await (await over("/healthz?verbose")).text()).toBe("[+]ping ok\nhealthz check passed\n");
    const failed = await over("/flagz");
    expect(failed.status).toBe(500);
    expect(await failed.text()).not.toContain("private");
    await served.close();
  });
});
