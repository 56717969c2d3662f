import type {
  HttpClient,
  Pipeline,
  PipelinePolicy,
  PipelineRequest,
  PipelineResponse,
  SendRequest,
} from "@azure/core-rest-pipeline";
import { type Clock, type CloudContext, CodedError, type Fence, isObject } from "cloud-controller-host/sdk";

import { objectAt, parseJson, stringAt } from "../../json.ts";
import type { RenewableCredential } from "../credentials/credential.ts";
import { ArmError, uncoded } from "../errors.ts";
import { lostAttemptsPolicy, minimumRetryAfterPolicy, retryPolicy } from "../transport/retry.ts";
import { linkSignals, sendWith } from "../transport/signals.ts";
import type { Troubles } from "../transport/troubles.ts";
import { apiVersionPolicy } from "./api-versions.ts";
import type { Budget } from "./budget.ts";
import { malformedReply, operationPath } from "./malformed-reply.ts";
import type { ArmMetrics } from "./metrics.ts";
import { operationPacingPolicy } from "./operation-pacing.ts";
import { pagingPolicy } from "./paging.ts";
import { correlationOf, recordPolicy } from "./record.ts";
import { isRead, targetOf } from "./target.ts";
import type { WritesInFlight } from "./writes-in-flight.ts";

export interface PipelineParts {
  readonly httpClient: HttpClient;
  readonly credential: RenewableCredential;
  /** Credentials of other tenants, whose tokens are sent as auxiliary ones. */
  readonly auxiliary: readonly RenewableCredential[];
  /** The only address that requests go to. */
  readonly resourceManager: string;
  readonly scope: string;
  readonly stack: boolean;
  readonly userAgent: string;
  readonly minimumRetryAfter: boolean;
  readonly fence: Fence;
  readonly clock: Clock;
  readonly budget: Budget;
  readonly metrics: ArmMetrics;
  readonly recordWrite?: CloudContext["recordWrite"];
  readonly troubles: Troubles;
  readonly writes: WritesInFlight;
  /** Ends every wait of a request but that for the reply to a write: no drain of the generation waits for a retry. */
  readonly signal: AbortSignal;
}

/** A request without its names: `PUT microsoft.network/loadbalancers`. */
const kindOf = ({ method, url }: PipelineRequest): string => `${method} ${targetOf(url).type || "an operation"}`;

/**
 * The pipeline of every request to ARM, from the SDK's client inwards: name it, count it, turn an error reply into an
 * `ArmError`, retry what may be retried and, for each attempt: its host, a token, the budget, the fence.
 */
export async function buildPipeline(parts: PipelineParts): Promise<Pipeline> {
  const sdk = await import("@azure/core-rest-pipeline");
  const { httpClient, scope } = parts;
  const pipeline = sdk.createEmptyPipeline();
  // Outside of the metrics: a wait for the time of a poll is not a part of the request.
  if (!parts.minimumRetryAfter) pipeline.addPolicy(operationPacingPolicy(parts.clock));
  pipeline.addPolicy(headersPolicy(parts.userAgent));
  pipeline.addPolicy(apiVersionPolicy(parts.stack));
  pipeline.addPolicy(parts.metrics.policy);
  if (parts.recordWrite !== undefined) pipeline.addPolicy(recordPolicy(parts.recordWrite));
  pipeline.addPolicy(endPolicy(parts.signal));
  pipeline.addPolicy(pagingPolicy());
  pipeline.addPolicy(lostAttemptsPolicy);
  pipeline.addPolicy(errorPolicy);
  pipeline.addPolicy(retryPolicy(parts.clock, parts.troubles, kindOf));
  if (parts.minimumRetryAfter) pipeline.addPolicy(minimumRetryAfterPolicy(parts.clock));
  const { credential, auxiliary } = parts;
  const signers = (): readonly PipelinePolicy[] => [
    sdk.bearerTokenAuthenticationPolicy({ credential, scopes: scope }),
    ...(auxiliary.length === 0
      ? []
      : [sdk.auxiliaryAuthenticationHeaderPolicy({ credentials: [...auxiliary], scopes: scope })]),
  ];
  pipeline.addPolicy(ownHostPolicy(parts.resourceManager));
  pipeline.addPolicy(authenticationPolicy([credential, ...auxiliary], signers, parts.clock));
  pipeline.addPolicy(parts.budget.policy);
  pipeline.addPolicy(fencePolicy(parts.fence, parts.writes));
  return boundTo(pipeline, httpClient);
}

/** The SDK's clients pass a client of their own, which is replaced by the one that the pipeline was created for. */
function boundTo(pipeline: Pipeline, httpClient: HttpClient): Pipeline {
  const send = pipeline.sendRequest.bind(pipeline);
  pipeline.sendRequest = (_client: HttpClient, request: PipelineRequest): Promise<PipelineResponse> =>
    send(httpClient, request);
  return pipeline;
}

/**
 * Names the request; removes the token afterwards, so that no error of the SDK, which keeps the request, contains it.
 */
const headersPolicy = (userAgent: string): PipelinePolicy => ({
  name: "headers",
  async sendRequest(request, next) {
    request.headers.set("user-agent", userAgent);
    request.headers.set("x-ms-client-request-id", crypto.randomUUID());
    try {
      return await next(request);
    } finally {
      request.headers.delete("authorization");
      request.headers.delete("x-ms-authorization-auxiliary");
    }
  },
});

/**
 * Throws every reply other than 2xx as an `ArmError`, and the poll that reports the failure of a long-running operation
 * too, of which the SDK would keep only the text. A reply of success that is not one of ARM is an error as well.
 * Redirects are not followed; ARM sends none.
 */
const errorPolicy: PipelinePolicy = {
  name: "errors",
  async sendRequest(request, next) {
    const response = await next(request);
    if (response.status >= 300) throw errorOf(request, response);
    const failed = failedOperation(request, response);
    if (failed !== undefined) throw failed;
    const malformed = malformedReply(request, response);
    if (malformed !== undefined) throw malformed;
    // The SDK takes text of another type for a string: a resource that has nothing, or an operation that has succeeded.
    if (isRead(request.method) || request.method === "PUT") response.headers.set("content-type", "application/json");
    return response;
  },
};

function errorOf(request: PipelineRequest, response: PipelineResponse): ArmError {
  const body = parseJson(response.bodyAsText ?? "");
  const error = isObject(body) ? (objectAt(body, "error") ?? body) : undefined;
  const code = response.headers.get("x-ms-error-code") ?? stringAt(error, "code") ?? uncoded(response.status);
  const reason = stringAt(error, "message") ?? "no further details";
  const { path } = targetOf(request.url);
  const message = `ARM ${request.method} ${path}: ${response.status} ${code}: ${reason}`;
  return new ArmError(response.status, code, message, {
    correlationId: correlationOf(response),
    method: request.method,
  });
}

const failedStates = new Set(["failed", "canceled", "cancelled"]);

function failedOperation(request: PipelineRequest, response: PipelineResponse): ArmError | undefined {
  const { path } = targetOf(request.url);
  if (!isRead(request.method) || !operationPath.test(path)) return undefined;
  const body = parseJson(response.bodyAsText ?? "");
  const state = isObject(body) ? stringAt(body, "status") : undefined;
  if (!isObject(body) || state === undefined || !failedStates.has(state.toLowerCase())) return undefined;
  const error = objectAt(body, "error");
  const code = stringAt(error, "code") ?? state;
  const reason = stringAt(error, "message") ?? "no further details";
  const message = `ARM operation ${state.toLowerCase()}: ${code}: ${reason}`;
  return new ArmError(response.status, code, message, {
    correlationId: correlationOf(response),
    failedOperation: true,
  });
}

/** No write is sent once the generation may no longer write, and one in flight is aborted when the fence closes. */
function fencePolicy(fence: Fence, writes: WritesInFlight): PipelinePolicy {
  return {
    name: "fence",
    async sendRequest(request, next) {
      if (isRead(request.method)) return next(request);
      fence.check(`ARM ${request.method} ${targetOf(request.url).path}`);
      return writes.send(request, next, fence.signal);
    },
  };
}

/** After the record of writes, which knows a request by its own signal. */
const endPolicy = (signal: AbortSignal): PipelinePolicy => ({
  name: "end",
  async sendRequest(request, next) {
    const link = linkSignals(signal, request.abortSignal);
    try {
      return await sendWith(link.signal, request, next);
    } finally {
      link.release();
    }
  },
});

/**
 * Refuses requests to any other host than the resource manager's. Replies have addresses that the SDK follows (the next
 * page of a list, the state of an operation) with the token of the identity.
 */
function ownHostPolicy(resourceManager: string): PipelinePolicy {
  const own = new URL(resourceManager);
  return {
    name: "own-host",
    sendRequest(request, next) {
      const { origin, host } = new URL(request.url);
      if (origin === own.origin) return next(request);
      const message = `ARM ${request.method}: a reply of ${own.host} refers to ${host}; no token is sent to another host`;
      return Promise.reject(new CodedError("ForeignHost", message));
    },
  };
}

/** For all requests together: an identity that ARM refuses gets new tokens in vain. */
const minRenewalIntervalMs = 30_000;

/**
 * Signs requests with the SDK's policies, which use a token until shortly before it expires. A token that ARM refuses
 * earlier (it was revoked, or this machine's clock is slow) is discarded, and the refused request is sent once more with
 * a new one.
 */
function authenticationPolicy(
  credentials: readonly RenewableCredential[],
  makeSigners: () => readonly PipelinePolicy[],
  clock: Clock,
): PipelinePolicy {
  let signers = makeSigners();
  const sign = (next: SendRequest): SendRequest =>
    signers.reduceRight((inner, policy) => (request) => policy.sendRequest(request, inner), next);
  let renewedMs = Number.NEGATIVE_INFINITY;
  return {
    name: "authentication",
    async sendRequest(request, next) {
      const used = signers;
      const response = await sign(next)(request);
      if (response.status !== 401) return response;
      if (used === signers) {
        if (clock.monotonic() - renewedMs < minRenewalIntervalMs) return response;
        renewedMs = clock.monotonic();
        for (const credential of credentials) credential.renew();
        signers = makeSigners();
      }
      return sign(next)(request);
    },
  };
}
