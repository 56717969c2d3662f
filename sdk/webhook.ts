import type { Clock, Logger } from "./context.ts";
import type { KubeObject } from "./kinds.ts";
import type { JSONPatchOperation } from "./kube.ts";
import { assertName } from "./names.ts";

interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

interface GroupVersionResource {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
}

/** The operation of a request that a webhook decides on. */
export type AdmissionOperation = "CREATE" | "UPDATE" | "DELETE" | "CONNECT";

/** upstream: `admission.k8s.io/v1` `AdmissionRequest`. */
export interface AdmissionRequest<T extends KubeObject = KubeObject> {
  readonly uid: string;
  readonly kind: GroupVersionKind;
  readonly resource: GroupVersionResource;
  readonly subResource?: string;
  readonly name?: string;
  readonly namespace?: string;
  readonly operation: AdmissionOperation;
  readonly userInfo: { readonly username?: string; readonly uid?: string; readonly groups?: readonly string[] };
  /** Absent for DELETE. */
  readonly object?: T | null;
  /** Present for UPDATE and DELETE. */
  readonly oldObject?: T | null;
  readonly dryRun?: boolean;
}

/** upstream: `admission.k8s.io/v1` `AdmissionResponse`, without what the host fills in. */
export interface AdmissionResponse {
  readonly allowed: boolean;
  /** The reason of a denial, for the user. */
  readonly message?: string;
  /** HTTP status of a denial; default 403. */
  readonly code?: number;
  /** For a mutating webhook. */
  readonly patch?: readonly JSONPatchOperation[];
  /** Printed by kubectl; at most 120 characters each. */
  readonly warnings?: readonly string[];
}

/** Services of one call. */
export interface WebhookContext {
  readonly log: Logger;
  readonly clock: Clock;
  /** Aborts when the API server no longer waits for the answer. */
  readonly signal: AbortSignal;
}

/** The requests that the API server sends to the webhook. upstream: `admissionregistration.k8s.io/v1` `RuleWithOperations`. */
export interface WebhookRule {
  readonly apiGroups: readonly string[];
  readonly apiVersions: readonly string[];
  readonly resources: readonly string[];
  readonly operations: readonly (AdmissionOperation | "*")[];
}

/** The argument of `defineWebhook`. `T` is the kind that `rules` name; where they name several, `kind` of the object tells. */
export interface WebhookSpec<T extends KubeObject = KubeObject> {
  /** Lower-case words joined by hyphens; the name in `--webhooks`. */
  readonly name: string;
  /** Exact URL path, starting with `/`. */
  readonly path: string;
  /** `mutating` webhooks may return a patch. Default `validating`. */
  readonly type?: "validating" | "mutating";
  readonly rules: readonly WebhookRule[];
  /**
   * Decides on one request. Called in every replica, with or without the lease, so it has no side effects. A thrown error
   * is answered with 500, upon which the API server applies the failure policy.
   */
  admit(request: AdmissionRequest<T>, context: WebhookContext): AdmissionResponse | Promise<AdmissionResponse>;
}

/** A webhook plugin's default export. */
export interface WebhookPlugin {
  readonly kind: "webhook";
  readonly name: string;
  readonly path: string;
  readonly type: "validating" | "mutating";
  readonly rules: readonly WebhookRule[];
  admit(request: AdmissionRequest, context: WebhookContext): Promise<AdmissionResponse>;
}

/** No request has a path that a URL writes in another way, such as `/a/../b`: each would be answered with 404. */
const isPath = (path: string): boolean =>
  /^\/[!-~]*$/u.test(path) && !/[?#]/u.test(path) && new URL(`https://localhost${path}`).pathname === path;

/** Declares an admission webhook. Make it the default export of the folder's `plugin.ts`. Disabled unless `--webhooks` names it. */
export function defineWebhook<T extends KubeObject = KubeObject>(spec: WebhookSpec<T>): WebhookPlugin {
  const served: WebhookSpec = spec;
  assertName(spec.name);
  if (!isPath(spec.path))
    throw new TypeError(
      `webhook "${spec.name}": path "${spec.path}" must start with "/" and be as in a URL: no query, blank, brace or ".."`,
    );
  return {
    kind: "webhook",
    name: spec.name,
    path: spec.path,
    type: spec.type ?? "validating",
    rules: spec.rules,
    admit: async (request, context) => served.admit(request, context),
  };
}
