import { expect, mock, test } from "bun:test";

import * as sdk from "@opentelemetry/sdk-node";

import { createTelemetry } from "../../../host/process/telemetry.ts";
import { capturedLog } from "../kube/captured-log.ts";

test("traces that cannot be started are logged, and their spans run their work", async () => {
  const real = { ...sdk };
  class NodeSDK {
    start(): void {
      throw new Error("no exporter");
    }
  }
  await mock.module("@opentelemetry/sdk-node", () => ({ ...real, NodeSDK }));
  const { log, lines } = capturedLog(0);
  try {
    await using telemetry = await createTelemetry({ OTEL_TRACES_EXPORTER: "otlp" }, "v1", log);
    expect(await telemetry.span("work", {}, async () => 42)).toBe(42);
  } finally {
    await mock.module("@opentelemetry/sdk-node", () => real);
  }
  expect(lines().map(({ msg }) => msg)).toEqual(["Failed to start tracing; continuing without it"]);
});

test("tracing is not started where no variable asks for it, or where one turns it off", async () => {
  const real = { ...sdk };
  const start = mock(() => undefined);
  class NodeSDK {
    readonly start = start;
    readonly shutdown = () => Promise.resolve();
  }
  await mock.module("@opentelemetry/sdk-node", () => ({ ...real, NodeSDK }));
  const started = async (environment: Readonly<Record<string, string>>): Promise<boolean> => {
    start.mockClear();
    await using _ = await createTelemetry(environment, "v1", capturedLog(0).log);
    return start.mock.calls.length > 0;
  };
  try {
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://localhost:4318" };
    expect(await started(endpoint)).toBe(true);
    expect(await started({})).toBe(false);
    expect(await started({ OTEL_EXPORTER_OTLP_ENDPOINT: "" })).toBe(false);
    expect(await started({ ...endpoint, OTEL_TRACES_EXPORTER: "none" })).toBe(false);
    expect(await started({ ...endpoint, OTEL_SDK_DISABLED: "True" })).toBe(false);
  } finally {
    await mock.module("@opentelemetry/sdk-node", () => real);
  }
});
