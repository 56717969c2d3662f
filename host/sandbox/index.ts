/** The in-process Kubernetes API server, for tests and plugin authors. */
export type { Fault, FaultEffect, Faults } from "./api-server/faults.ts";
export type { RecordedRequest, RequestLog, RequestMatch } from "./api-server/request-log.ts";
export { type ApiServerOptions, SandboxApiServer } from "./api-server/server.ts";
