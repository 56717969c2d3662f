import type { Environment, Logger } from "cloud-controller-host/sdk";

import { systemClock } from "../async/clock.ts";
import { within } from "../async/timeout.ts";
import type { Tracer } from "../async/tracer.ts";

export interface Telemetry extends Tracer, AsyncDisposable {}

const off: Telemetry = {
  span: (_name, _attributes, work) => work(),
  [Symbol.asyncDispose]: () => Promise.resolve(),
};

/** Any of these enables tracing; the OpenTelemetry SDK reads further settings from its own variables. */
const wanting = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER"] as const;

function isWanted(environment: Environment): boolean {
  if (environment["OTEL_SDK_DISABLED"]?.toLowerCase() === "true") return false;
  if (environment["OTEL_TRACES_EXPORTER"] === "none") return false;
  return wanting.some((name) => (environment[name] ?? "") !== "");
}

/**
 * Telemetry configured by the standard `OTEL_*` variables. The SDK is heavy (half a second, 30 MiB) and is imported only
 * if they enable it. A failure to start is logged and costs only the traces.
 */
export async function createTelemetry(environment: Environment, version: string, log: Logger): Promise<Telemetry> {
  if (!isWanted(environment)) return off;
  try {
    return await startTelemetry(version, log);
  } catch (error) {
    log.error("Failed to start tracing; continuing without it", { error });
    return off;
  }
}

async function startTelemetry(version: string, log: Logger): Promise<Telemetry> {
  const [{ NodeSDK }, api] = await Promise.all([import("@opentelemetry/sdk-node"), import("@opentelemetry/api")]);
  const sdk = new NodeSDK({ instrumentations: [], serviceName: "cloud-controller-manager" });
  sdk.start();
  const tracer = api.trace.getTracer("cloud-controller-host", version);
  return {
    span: (name, attributes, work) =>
      tracer.startActiveSpan(name, { attributes }, async (span) => {
        try {
          return await work();
        } catch (error) {
          span.setStatus({ code: api.SpanStatusCode.ERROR, message: error instanceof Error ? error.name : "thrown" });
          throw error;
        } finally {
          span.end();
        }
      }),
    async [Symbol.asyncDispose]() {
      await flushed(sdk.shutdown(), log);
      api.trace.disable();
      api.context.disable();
    },
  };
}

/** Time limit for exporting the last spans. */
const flushMs = 5_000;

/** A slow or unreachable collector neither fails the host nor delays its shutdown beyond the limit. */
async function flushed(shutdown: Promise<void>, log: Logger): Promise<void> {
  const exported = shutdown.catch((error: unknown) => log.warn("Failed to export the last traces", { error }));
  const { done } = await within(systemClock, flushMs, exported);
  if (!done) log.warn("Timed out exporting the last traces", { limitMs: flushMs });
}
