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
