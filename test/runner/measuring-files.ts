/**
 * Files whose tests measure how soon something is answered, or processor time. They run once all others have ended: what
 * runs beside them is what they would measure.
 */
export const measuringFiles: readonly string[] = [
  "test/console/load.test.ts",
  "test/host/main.unread-output.test.ts",
  "test/host/process/log/log.test.ts",
  "test/host/process/serving/listener.test.ts",
  "test/host/process/watchdog/watchdog.test.ts",
  "test/host/process/webhooks/admission.document-size.test.ts",
  "test/host/process/writes/audit-log.test.ts",
  "test/hostile/attacks.test.ts",
  "test/hostile/few-files.test.ts",
  "test/hostile/frames.test.ts",
  "test/hostile/slow-heads.test.ts",
  "test/hostile/webhooks.test.ts",
  "test/plugins/azure-cloud/load-balancer/plan/plan.tenant-limits.test.ts",
  "test/reload/many-reloads.test.ts",
  "test/sdk/testing/conformance.test.ts",
];
