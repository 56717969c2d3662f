import type { PipelinePolicy } from "@azure/core-rest-pipeline";
import { CodedError } from "cloud-controller-host/sdk";

/**
 * Refuses requests to any other host than the resource manager's. Replies have addresses that the SDK follows (the next
 * page of a list, the state of an operation) with the token of the identity.
 */
export function ownHostPolicy(resourceManager: string): PipelinePolicy {
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
