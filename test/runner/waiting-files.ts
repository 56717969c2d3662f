/**
 * Files that wait for leases, timeouts and pages for most of their time, in lanes: those of a lane run one after another,
 * beside the other lane and all other files, so that no worker that could compute waits with them. All that use a browser
 * are in one lane, so that no two of them do so at once.
 */
export const waitingLanes: readonly (readonly string[])[] = [
  [
    "test/chaos/service-crash.test.ts",
    "test/conformance/plugins.test.ts",
    "test/host/generation/prepare/check-removals.test.ts",
    "test/host/plan/explain.test.ts",
    "test/host/plan/plan.test.ts",
    "test/host/plan/plan.troubles.test.ts",
    "test/host/sandbox/command.terminal.test.ts",
    "test/host/shadow/shadow.test.ts",
    "test/reload/faulty-plugins.test.ts",
    "test/scenario/leader-migration.test.ts",
    "test/scenario/shards-load.test.ts",
  ],
  [
    "test/console/connection.test.ts",
    "test/console/hostile.test.ts",
    "test/console/keyboard.test.ts",
    "test/console/overview.test.ts",
    "test/console/page.test.ts",
    "test/console/states.test.ts",
    "test/console/table.test.ts",
  ],
];
