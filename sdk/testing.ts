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
export { type ManualClock, manualClock } from "./testing/manual-clock.ts";
export {
  type MemoryBalancer,
  type MemoryCloud,
  memoryCloud,
  type MemoryCloudOptions,
  type MemoryMachine,
} from "./testing/memory-cloud.ts";
