/**
 * Files that wait for leases, timeouts and pages for most of their time. They run one after another beside all others, so
 * that no worker that could compute waits with them; and no two of them use a browser at once.
 */
export const waitingFiles: readonly string[] = [
  "test/chaos/service-crash.test.ts",
  "test/conformance/plugins.test.ts",
  "test/console/connection.test.ts",
  "test/console/hostile.test.ts",
  "test/console/keyboard.test.ts",
  "test/console/overview.test.ts",
  "test/console/page.test.ts",
  "test/console/states.test.ts",
  "test/console/table.test.ts",
  "test/host/generation/prepare/check-removals.test.ts",
  "test/host/plan/explain.test.ts",
  "test/host/plan/plan.test.ts",
  "test/host/plan/plan.troubles.test.ts",
  "test/host/shadow/shadow.test.ts",
  "test/reload/faulty-plugins.test.ts",
  "test/scenario/shards-load.test.ts",
];
