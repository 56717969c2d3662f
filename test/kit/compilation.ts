/**
 * Settings of Bun's compilers for processes that run most code a few times: test files, histories, hosts that a test starts.
 * With Bun's own thresholds, compilers take up to a third of their CPU time. The image has the same settings.
 */
export const compilation = {
  BUN_JSC_useFTLJIT: "0",
  BUN_JSC_thresholdForOptimizeAfterWarmUp: "10000",
  BUN_JSC_thresholdForOptimizeAfterLongWarmUp: "10000",
  BUN_JSC_thresholdForOptimizeSoon: "10000",
} as const;

/** The settings that this process was started with, for children with an environment of their own. */
export const ownCompilation = (): Readonly<Record<string, string | undefined>> =>
  Object.fromEntries(Object.keys(compilation).map((name) => [name, process.env[name]]));
