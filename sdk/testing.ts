/** What tests of plugins need beside the SDK: a clock moved by hand, a cloud in memory, and the conformance suites. */
export type {
  CloudArguments,
  CloudCallRecord,
  CloudCalls,
  CloudHold,
  CloudInterceptor,
  CloudMethod,
  CloudResult,
} from "./testing/cloud-calls.ts";
export { cloudConformance, type CloudHarness, type CloudWorld } from "./testing/cloud-conformance.ts";
export { ConformanceError, type ConformanceTest, eventually } from "./testing/conformance.ts";
export { controllerConformance } from "./testing/controller-conformance.ts";
export type {
  ControllerGeneration,
  ControllerHarness,
  ControllerWorld,
  TimerWatch,
} from "./testing/controller-harness.ts";
export type { ControllerConformanceOptions } from "./testing/controller-stage.ts";
export type { BringWork } from "./testing/controller-work.ts";
export { type ManualClock, manualClock } from "./testing/manual-clock.ts";
export {
  type MemoryBalancer,
  type MemoryCloud,
  memoryCloud,
  type MemoryCloudOptions,
  type MemoryMachine,
} from "./testing/memory-cloud.ts";
