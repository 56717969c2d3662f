import { describe, expect, test } from "bun:test";

import { systemClock } from "../../../../host/async/clock.ts";
import { createLogger } from "../../../../host/process/log/log.ts";
import { SliMetrics } from "../../../../host/process/metrics/sli.ts";
import { type HealthCheck, HealthChecks } from "../../../../host/process/serving/health.ts";

interface Setup {
  readonly health: HealthChecks;
  readonly lines: string[];
  readonly slis: SliMetrics;
  readonly get: (path: string) => Promise<{ readonly status: number; readonly body: string }>;
}

function setup(timeLimitMs = 10_000): Setup {
  const lines: string[] = [];
  const slis = new SliMetrics();
  const log = createLogger({ format: "text", verbosity: 2, write: (line) => lines.push(line) });
  const health = new HealthChecks({ clock: systemClock, log, slis, timeLimitMs });
  return {
    health,
    lines,
    slis,
    async get(path) {
      const response = await health.respond("healthz", new URL(path, "https://host").searchParams);
      return { status: response.status, body: await response.text() };
    },
  };
}

const good = (name: string): HealthCheck => ({ name, check: () => undefined });
const bad = (name: string): HealthCheck => ({ name, check: () => Promise.reject(new Error("broken inside")) });

describe("health checks that change while they are served", () => {
  test("no checks are healthy, reported as ping", async () => {
    const { get } = setup();
    expect(await get("/healthz")).toEqual({ status: 200, body: "ok" });
    expect(await get("/healthz?verbose")).toEqual({ status: 200, body: "[+]ping ok\nhealthz check passed\n" });
  });

  test("ping disappears as soon as there is a real check", async () => {
    const { get, health } = setup();
    health.addProcess(good("leaderElection"));
    health.replaceGeneration([good("cloud-node-controller")]);
    expect((await get("/healthz?verbose=0")).body).toBe(
      "[+]leaderElection ok\n[+]cloud-node-controller ok\nhealthz check passed\n",
    );
  });

  test("a failure is a 500 that names the check and logs the reason", async () => {
    const { get, health, lines } = setup();
    health.replaceGeneration([good("a"), bad("b")]);
    expect(await get("/healthz")).toEqual({
      status: 500,
      body: "[+]a ok\n[-]b failed: reason withheld\nhealthz check failed\n",
    });
    expect(lines.join("")).toContain("b: broken inside");
  });

  test("a check of the process keeps its metrics when a generation has had one of its name", async () => {
    const { get, health, slis } = setup();
    health.addProcess(good("leaderElection"));
    health.replaceGeneration([good("leaderElection"), good("other")]);
    await get("/healthz");
    health.replaceGeneration([]);
    const { body } = await slis.render();
    expect(body).toContain('kubernetes_healthcheck{name="leaderElection",type="healthz"} 1\n');
    expect(body).not.toContain('kubernetes_healthcheck{name="other"');
  });

  test("a check that is added later applies from then on", async () => {
    const { get, health } = setup();
    const generation = health.replaceGeneration([good("a")]);
    expect((await get("/healthz")).status).toBe(200);
    generation.add(bad("b"));
    expect((await get("/healthz")).status).toBe(500);
  });

  test("a single check's endpoint returns its reason, whatever the query", async () => {
    const { health } = setup();
    health.replaceGeneration([good("a"), bad("b")]);
    expect((await health.respondOne("healthz", "a"))?.status).toBe(200);
    const failed = await health.respondOne("healthz", "b");
    expect(failed?.status).toBe(500);
    expect(await failed?.text()).toBe("internal server error: broken inside\n");
    expect(await health.respondOne("healthz", "c")).toBeUndefined();
  });
});

test("five blocking checks run concurrently", async () => {
  const { get, health } = setup();
  const running = Promise.withResolvers<void>();
  let count = 0;
  health.replaceGeneration([
    {
      name: "hanging",
      check: () => {
        if (++count === 5) running.resolve();
        return running.promise;
      },
    },
  ]);
  const answers = await Promise.all(Array.from({ length: 5 }, () => get("/healthz")));
  expect(answers.every(({ status }) => status === 200)).toBeTrue();
});

test("the name and the error are returned", async () => {
  const { get, health } = setup();
  health.addProcess({
    name: "named",
    check: () => {
      throw new Error("no");
    },
  });
  expect((await get("/healthz")).body).toContain("[-]named failed");
  expect(await (await health.respondOne("livez", "named"))?.text()).toBe("internal server error: no\n");
});

describe("a health answer", () => {
  test("omits excluded checks and warns of names that match nothing", async () => {
    const { get, health } = setup();
    health.replaceGeneration([good("a"), bad("b")]);
    expect(await get("/healthz?exclude=b&verbose&exclude=x&exclude=y")).toEqual({
      status: 200,
      body:
        "[+]a ok\n[+]b excluded: ok\n" +
        'warn: some health checks cannot be excluded: no matches for "x","y"\nhealthz check passed\n',
    });
    expect(await get("/healthz?exclude=b")).toEqual({ status: 200, body: "ok" });
  });

  test("is plain text with MIME sniffing disabled", async () => {
    const { health } = setup();
    const { headers } = await health.respond("readyz", new URLSearchParams());
    expect(headers.get("content-type")).toBe("text/plain; charset=utf-8");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
  });

  test("includes a check only at the endpoints that it names", async () => {
    const { health } = setup();
    health.addProcess({ ...bad("shutdown"), endpoints: ["readyz"] });
    expect((await health.respond("livez", new URLSearchParams())).status).toBe(200);
    expect((await health.respond("readyz", new URLSearchParams())).status).toBe(500);
    expect(health.names("readyz")).toEqual(["shutdown"]);
  });

  test("does not wait for a check that hangs, nor calls it again before it returns", async () => {
    const { health, get } = setup(5);
    const release = Promise.withResolvers<void>();
    let calls = 0;
    health.replaceGeneration([{ name: "a", check: () => (calls++, release.promise) }]);
    expect((await get("/healthz")).status).toBe(500);
    expect((await get("/healthz")).status).toBe(500);
    expect(calls).toBe(1);
    release.resolve();
    await release.promise;
    await systemClock.sleep(0);
    expect((await get("/healthz")).status).toBe(200);
  });

  test("does not call a check that hangs twice before both calls have returned", async () => {
    const { health, get } = setup(50);
    const calls: PromiseWithResolvers<void>[] = [];
    const check = (): Promise<void> => calls[calls.push(Promise.withResolvers()) - 1]?.promise ?? Promise.resolve();
    health.replaceGeneration([{ name: "a", check }]);
    await Promise.all([get("/healthz"), get("/healthz")]);
    expect(calls).toHaveLength(2);
    calls[0]?.resolve();
    await systemClock.sleep(0);
    expect((await get("/healthz")).status).toBe(500);
    expect(calls).toHaveLength(2);
    calls[1]?.resolve();
  });

  test("aborts the check's signal on timeout", async () => {
    const { health, get } = setup(5);
    const reported = Promise.withResolvers<void>();
    health.replaceGeneration([
      {
        name: "a",
        check: (signal) =>
          new Promise((_, reject) => {
            signal.addEventListener("abort", () => (reported.resolve(), reject(signal.reason)), { once: true });
          }),
      },
    ]);
    expect((await get("/healthz")).status).toBe(500);
    await reported.promise;
  });
});

describe("generations of checks", () => {
  test("replace each other, so that ten reloads leave as many lines as one", async () => {
    const { get, health } = setup();
    for (let i = 0; i < 10; i++) health.replaceGeneration([good("a"), good("b")]);
    expect((await get("/healthz?verbose")).body.split("\n")).toHaveLength(4);
  });

  test("generations of checks that have been replaced can add no further checks", () => {
    const { health } = setup();
    const old = health.replaceGeneration([]);
    health.replaceGeneration([good("new")]);
    old.add(bad("late"));
    expect(health.names("healthz")).toEqual(["new"]);
  });

  test("remove the state of a removed check from the service-level metrics", async () => {
    const { get, health, slis } = setup();
    health.replaceGeneration([good("a"), bad("b")]);
    await get("/healthz");
    expect((await slis.render()).body).toContain('kubernetes_healthcheck{name="b",type="healthz"} 0');
    health.replaceGeneration([good("a")]);
    const { body } = await slis.render();
    expect(body).not.toContain('kubernetes_healthcheck{name="b"');
    expect(body).toContain('kubernetes_healthcheck{name="a",type="healthz"} 1');
    expect(body).toContain('kubernetes_healthchecks_total{name="b",type="healthz",status="error"} 1');
  });

  test("cannot override a check of the process by using its name", () => {
    const { health } = setup();
    health.addProcess(bad("leaderElection"));
    health.replaceGeneration([good("leaderElection")]);
    expect(health.names("healthz")).toEqual(["leaderElection"]);
    expect(() => health.addProcess(good("leaderElection"))).toThrow("leaderElection");
  });
});
