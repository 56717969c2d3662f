/** The in-process Kubernetes API server, for tests and plugin authors. */
export { type Access, isAllowed } from "./access/rules.ts";
export type { AdmissionWebhook } from "./http/admission.ts";
export type { Fault, FaultEffect, Faults } from "./faults.ts";
export type { RecordedRequest, RequestLog, RequestMatch } from "./request-log.ts";
export { type ApiServerOptions, SandboxApiServer } from "./server.ts";
