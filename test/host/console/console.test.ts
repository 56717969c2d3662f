import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";

import { Value } from "@sinclair/typebox/value";
import { eventually } from "cloud-controller-host/sdk/testing";

import { paths } from "../../../host/console/openapi.ts";
import { answers } from "../../../host/console/schema.ts";
import { openSandbox, type Sandbox } from "../../../host/sandbox-host.ts";
import { createService, untilReady } from "../../kit/sandbox-services.ts";

setDefaultTimeout(120_000);

let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await openSandbox();
  await createService(sandbox, "web");
  await createService(sandbox, "bad", { "service.beta.kubernetes.io/azure-dns-label-name": "-" });
  await untilReady(sandbox, "web");
});

afterAll(() => sandbox[Symbol.asyncDispose]());

const get = (
  path: string,
  init: { method?: string; headers?: Record<string, string>; signal?: AbortSignal } = {},
  token = sandbox.api.tokens.of("admin"),
): Promise<Response> =>
  fetch(`${sandbox.host.url}${path}`, {
    ...init,
    headers: { Authorization: `Bearer ${token}`, ...init.headers },
    tls: { rejectUnauthorized: false },
  });

const read = async (path: string) => JSON.parse(await (await get(path)).text());

const examples: Readonly<Record<keyof typeof paths, string>> = {
  "/overview": "overview",
  "/leadership": "leadership",
  "/controllers": "controllers",
  "/services": "services",
  "/services/{namespace}/{name}": "services/default/web",
  "/nodes": "nodes",
  "/nodes/{name}": "nodes/vmss0000000",
  "/cloud": "cloud",
  "/writes": "writes",
  "/plan": "plan",
  "/runbook": "runbook",
};

describe("an answer of the console", () => {
  test.each(Object.entries(paths))("has the form that the OpenAPI document promises: %s", async (path, { answer }) => {
    const example = Object.entries(examples).find(([key]) => key === path)?.[1] ?? "";
    const body = await read(`/ui/api/${example}`);
    expect([...Value.Errors(answers[answer], body)].map(({ path: at, message }) => `${at}: ${message}`)).toEqual([]);
    const view = await get(`/ui/${example}?format=json`);
    expect(view.headers.get("content-type")).toBe("application/json");
    expect(Object.keys(JSON.parse(await view.text()))).toEqual(Object.keys(body));
  });

  test("is in the OpenAPI document with its path, its parameters and its schema", async () => {
    const document = await read("/ui/api/openapi.json");
    expect(Object.keys(document.paths)).toEqual(Object.keys(paths).map((path) => `/ui/api${path}`));
    expect(Object.keys(document.components.schemas)).toEqual(Object.keys(answers));
    const service = document.paths["/ui/api/services/{namespace}/{name}"].get;
    expect(service.parameters.map(({ name }: { name: string }) => name)).toEqual(["namespace", "name"]);
    expect(service.responses[200].content["application/json"].schema).toEqual({ $ref: "#/components/schemas/object" });
  });

  test("shows a failing Service with its cause first, and what is in order", async () => {
    const { problems, verified, leading } = await read("/ui/api/overview");
    expect(leading).toBe(true);
    expect(problems[0]).toMatchObject({ severity: "critical", view: "services/default/bad" });
    expect(problems[0].cause).toContain("azure-dns-label-name");
    expect(verified).toContainEqual(expect.objectContaining({ name: "Services", value: "1 of 2 ready" }));
  });

  test("has a Service as a tree down to its pool, with its events and its writes", async () => {
    const { tree, events, writes } = await read("/ui/api/services/default/web");
    const titles = JSON.stringify(tree);
    for (const part of ["load balancer kubernetes", "frontend ", "rule ", "pool kubernetes", "security rule "])
      expect(titles).toContain(`"title":"${part}`);
    expect(events.map(({ reason }: { reason: string }) => reason)).toContain("EnsuredLoadBalancer");
    expect(writes[0]).toMatchObject({ resource: "Service default/web (status)", outcome: "done" });
  });

  test("is an error for what is not known, with the names as they were asked for", async () => {
    for (const path of ["/ui/api/services/default/none", "/ui/api/none", "/ui/api/overview/more", "/ui/api/"]) {
      const reply = await get(path);
      expect([path, reply.status]).toEqual([path, 404]);
      expect(typeof JSON.parse(await reply.text()).error).toBe("string");
    }
    expect((await get("/ui/none")).status).toBe(404);
    expect((await get("/ui/%E0%A4%A")).status).toBe(400);
  });
});

describe("the console", () => {
  test("answers only who may get /ui/*, with the decision of the API server", async () => {
    const stranger = sandbox.api.tokens.issueFor("default", "stranger", "1", Date.now() + 60_000);
    for (const path of ["/ui/", "/ui/page.js", "/ui/api/overview", "/ui/api/stream"]) {
      expect((await get(path, {}, stranger)).status).toBe(403);
      expect((await get(path, {}, "no token")).status).toBe(401);
    }
  });

  test("answers every method but GET and HEAD with 405", async () => {
    for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
      const reply = await get("/ui/api/overview", { method });
      expect([method, reply.status, reply.headers.get("allow")]).toEqual([method, 405, "GET, HEAD"]);
    }
  });

  test("answers HEAD as GET without the body", async () => {
    const replies = [await get("/ui/api/overview", { method: "HEAD" }), await get("/ui/none", { method: "HEAD" })];
    expect(replies.map(({ status, headers }) => [status, headers.get("content-type")])).toEqual([
      [200, "application/json"],
      [404, "text/html; charset=utf-8"],
    ]);
    expect(await Promise.all(replies.map((reply) => reply.text()))).toEqual(["", ""]);
  });

  test("lets nothing be framed, stored, sniffed or loaded from elsewhere, and sets no cookie", async () => {
    for (const path of [
      "/ui/",
      "/ui/services/default/web",
      "/ui/page.js",
      "/ui/page.css",
      "/ui/api/overview",
      "/ui/x",
    ]) {
      const { headers } = await get(path);
      expect(headers.get("content-security-policy")).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
          "frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
      );
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("set-cookie")).toBeNull();
    }
  });

  test("has a page without inline script or style, of less than 150 KB compressed", async () => {
    const page = await (await get("/ui/")).text();
    expect(page).not.toMatch(/<style|style=|\son[a-z]+=|<script(?![^>]*\ssrc=)/u);
    const files = await Promise.all(
      ["/ui/page.js", "/ui/page.css", "/ui/icon.svg"].map(async (path) => (await get(path)).bytes()),
    );
    const compressed = files.map((file) => Bun.gzipSync(Buffer.from(file)).length);
    expect(Math.min(...compressed)).toBeGreaterThan(50);
    expect(compressed.reduce((sum, size) => sum + size, 0)).toBeLessThan(150_000);
  });
});

describe("the address on loopback", () => {
  const local = (path: string, headers: Record<string, string> = {}): Promise<Response> =>
    fetch(new URL(path, sandbox.consoleUrl), { headers, redirect: "manual" });

  test("needs no credentials, and shows none", async () => {
    const reply = await local("/ui/api/overview");
    expect(reply.status).toBe(200);
    const token = sandbox.api.tokens.of("admin");
    expect(JSON.stringify([...reply.headers])).not.toContain(token);
    expect(await reply.text()).not.toContain(token);
    expect((await local("/")).headers.get("location")).toBe("/ui/");
  });

  test("refuses other host names, pages of other sites, other paths and other methods", async () => {
    expect((await local("/ui/", { Host: "evil.example" })).status).toBe(403);
    expect((await local("/ui/", { "Sec-Fetch-Site": "cross-site" })).status).toBe(403);
    expect((await local("/ui/", { "Sec-Fetch-Site": "same-origin" })).status).toBe(200);
    for (const path of ["/statusz", "/metrics", "/ui/../statusz", "/uix"])
      expect([path, (await local(path)).status]).toEqual([path, 404]);
    const reply = await fetch(new URL("/ui/", sandbox.consoleUrl), { method: "POST" });
    expect(reply.status).toBe(405);
  });
});

describe("the stream", () => {
  const events = async (headers: Record<string, string> = {}, signal?: AbortSignal) => {
    const reply = await get("/ui/api/stream", { headers, ...(signal && { signal }) });
    const reader = reply.body?.pipeThrough(new TextDecoderStream()).getReader();
    return { status: reply.status, next: async () => String((await reader?.read())?.value) };
  };
  const idIn = (message: string): string => /^id: (\S+)$/mu.exec(message)?.[1] ?? "";

  test("says which data have changed, and resumes with the latest message without repeating it", async () => {
    using stop = new DisposableStack();
    const controller = stop.adopt(new AbortController(), (it) => it.abort());
    const { next } = await events({}, controller.signal);
    const first = await next();
    expect(first).toStartWith("retry: 1000\n");
    const versionsOf = (message: string) => JSON.parse(/^data: (.*)$/mu.exec(message)?.[1] ?? "{}").versions;
    await createService(sandbox, "one-more");
    let message = first;
    while (versionsOf(message).services === versionsOf(first).services) message = await next();
    await eventually("a stream resumes where another one has ended", async () => {
      const latest = idIn(await (await events({}, controller.signal)).next());
      const again = await events({ "Last-Event-ID": latest }, controller.signal);
      return (await again.next()).endsWith(": nothing has changed\n\n");
    });
  });

  test("is refused to the 21st page, which may come again once another one has left", async () => {
    const controllers = Array.from({ length: 20 }, () => new AbortController());
    const open = await Promise.all(controllers.map(({ signal }) => events({}, signal)));
    expect(open.map(({ status }) => status)).toEqual(Array(20).fill(200));
    expect((await get("/ui/api/stream")).status).toBe(503);
    controllers[0]?.abort();
    await eventually("there is room for one", async () => {
      const controller = new AbortController();
      const { status } = await events({}, controller.signal);
      controller.abort();
      return status === 200;
    });
    for (const controller of controllers) controller.abort();
  });
});
