/** The sandbox, for tests and for authors of plugins: a Kubernetes API server in the process. */
export type { Fault, FaultEffect, Faults } from "./api-server/faults.ts";
export type { RecordedRequest, RequestLog, RequestMatch } from "./api-server/request-log.ts";
export { type ApiServerOptions, SandboxApiServer } from "./api-server/server.ts";
