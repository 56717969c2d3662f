export type { RunOptions } from "../../host/sandbox/testing/runner.ts";
export { TestCluster } from "../../host/sandbox/testing/cluster.ts";
