import { describe, expect, setDefaultTimeout, test } from "bun:test";

import { createLogger } from "../../host/process/log/log.ts";
import { createTelemetry } from "../../host/process/telemetry.ts";
import { joinNodes } from "../kit/azure.ts";
import { hostUser } from "../kit/host-roles.ts";
import { SandboxLab } from "./sandbox-lab.ts";

setDefaultTimeout(120_000);

const silent = createLogger({ format: "text", verbosity: 0, write: () => undefined });

interface Span {
  readonly name: string;
  readonly status: { readonly code?: number };
}

/** Receives what an exporter sends, like a collector. */
class Collector implements Disposable {
  readonly bodies: string[] = [];
  readonly #server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: async (request) => {
      this.bodies.push(await request.text());
      return Response.json({});
    },
  });

  get environment(): Readonly<Record<string, string>> {
    return {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${this.#server.port}`,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
    };
  }

  get spans(): readonly Span[] {
    return this.bodies.flatMap((body) => {
      const { resourceSpans }: { resourceSpans: { scopeSpans: { spans: Span[] }[] }[] } = JSON.parse(body);
      return resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans));
    });
  }

  [Symbol.dispose](): void {
    void this.#server.stop(true);
  }
}

describe("traces", () => {
  test("traces that are disabled cost nothing: spans run their work and pass errors through", async () => {
    const unwanted = [
      {},
      { OTEL_TRACES_EXPORTER: "none" },
      { OTEL_SDK_DISABLED: "true", OTEL_TRACES_EXPORTER: "otlp" },
    ];
    for (const environment of unwanted) {
      await using telemetry = await createTelemetry(environment, "v1", silent);
      expect(await telemetry.span("work", { key: "a" }, async () => 42)).toBe(42);
      const failure = new Error("as it was");
      expect(await telemetry.span("work", {}, () => Promise.reject(failure)).catch((error: unknown) => error)).toBe(
        failure,
      );
    }
  });

  test("traces of a host reach the collector named by OTEL_*, none lost at shutdown, and contain no secret", async () => {
    await using lab = await SandboxLab.open();
    using collector = new Collector();
    await joinNodes(lab.admin, lab.azure, 1);
    const host = lab.start({ flags: ["--enable-dynamic-reloading"], environment: collector.environment });
    await host.until("it runs", ({ running }) => running);
    await lab.changeConfig();
    await host.until("the next one runs", ({ generation, running }) => generation === 2 && running);
    expect(await host.stop()).toBe(0);

    const names = collector.spans.map(({ name }) => name);
    expect(names.filter((name) => name === "prepare")).toHaveLength(2);
    expect(names.filter((name) => name === "reload")).toHaveLength(1);
    expect(names.length).toBeGreaterThan(10);
    const [, password = ""] = /aadClientSecret: "(.+)"/.exec(lab.azure.configText) ?? [];
    for (const secret of [password, lab.api.tokens.of(hostUser)])
      expect(collector.bodies.join("\n")).not.toContain(secret);
  });

  test("traces are exported at the end, the last span too", async () => {
    using collector = new Collector();
    const before = { ...process.env };
    Object.assign(process.env, collector.environment);
    try {
      await using telemetry = await createTelemetry(collector.environment, "v1", silent);
      await telemetry.span("last", {}, async () => undefined);
    } finally {
      for (const name of Object.keys(collector.environment)) {
        if (before[name] === undefined) delete process.env[name];
        else process.env[name] = before[name];
      }
    }
    expect(collector.spans.map(({ name }) => name)).toEqual(["last"]);
  });

  test("traces that cannot be exported delay neither the host nor its shutdown", async () => {
    await using lab = await SandboxLab.open();
    const environment = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1", OTEL_EXPORTER_OTLP_TIMEOUT: "500" };
    const host = lab.start({ environment });
    await host.until("it runs", ({ running }) => running);
    expect(await host.stop()).toBe(0);
    expect(lab.lease()?.holderIdentity).toBe("");
  });
});
