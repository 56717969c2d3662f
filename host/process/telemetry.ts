import type { Environment, Logger } from "cloud-controller-host/sdk";

import { systemClock } from "../async/clock.ts";
import { within } from "../async/timeout.ts";
import type { Tracer } from "../async/tracer.ts";

export interface Telemetry extends Tracer, AsyncDisposable {}

const off: Telemetry = {
  span: (_name, _attributes, work) => work(),
  [Symbol.asyncDispose]: () => Promise.resolve(),
};

/** Any of these says that traces are wanted; how and where to is what the OpenTelemetry SDK reads from its own. */
const wanting = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER"] as const;

function isWanted(environment: Environment): boolean {
  if (environment["OTEL_SDK_DISABLED"]?.toLowerCase() === "true") return false;
  if (environment["OTEL_TRACES_EXPORTER"] === "none") return false;
  return wanting.some((name) => (environment[name] ?? "") !== "");
}

/**
 * Telemetry as the usual `OTEL_*` variables say. The SDK is heavy (half a second, 30 MiB) and is imported only where
 * they ask for it. One that cannot be started is told in the log and costs no more than its traces.
 */
export async function createTelemetry(environment: Environment, version: string, log: Logger): Promise<Telemetry> {
  if (!isWanted(environment)) return off;
  try {
    return await startTelemetry(version, log);
  } catch (error) {
    log.error("Traces cannot be exported", { error });
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

/** How long the last spans may take to reach the collector. */
const flushMs = 5_000;

/** A collector that is slow or away is no failure of the host, and does not hold up its end. */
async function flushed(shutdown: Promise<void>, log: Logger): Promise<void> {
  const told = shutdown.catch((error: unknown) => log.warn("The last traces cannot be exported", { error }));
  const { done } = await within(systemClock, flushMs, told);
  if (!done) log.warn("The last traces were not taken in time", { limitMs: flushMs });
}
