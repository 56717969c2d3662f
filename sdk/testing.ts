/** For tests of plugins: conformance suites, an in-memory cloud and a manual clock. */
export type {
  CloudArguments,
  CloudCallRecord,
  CloudCalls,
  CloudHold,
  CloudInterceptor,
  CloudMethod,
  CloudResult,
} from "./testing/cloud-calls.ts";
export { cloudConformance } from "./testing/cloud-conformance.ts";
export type { CloudFixture, CloudHarness } from "./testing/cloud-harness.ts";
export { ConformanceError, type ConformanceTest, eventually } from "./testing/conformance.ts";
export { controllerConformance } from "./testing/controller-conformance.ts";
export type {
  ControllerGeneration,
  ControllerHarness,
  ControllerWorld,
  TimerWatch,
} from "./testing/controller-harness.ts";
export type { ControllerConformanceOptions } from "./testing/controller-fixture.ts";
export type { CreateWork } from "./testing/controller-work.ts";
export { webhookConformance, type WebhookCase } from "./testing/webhook-conformance.ts";
export { type ManualClock, manualClock } from "./testing/manual-clock.ts";
export {
  type MemoryBalancer,
  type MemoryCloud,
  memoryCloud,
  type MemoryCloudOptions,
  type MemoryMachine,
} from "./testing/memory-cloud.ts";
