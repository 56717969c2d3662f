import type { PipelinePolicy } from "@azure/core-rest-pipeline";

import { targetOf } from "./target.ts";

/** API versions by provider, or by type where one differs. */
type Versions = Readonly<Record<string, string>>;

/**
 * The versions that upstream's clients speak. The SDK's own are newer; sovereign clouds may not serve them yet, and
 * resources must look the same to both controllers. A type without an entry keeps the SDK's version.
 */
const azureVersions: Versions = {
  "microsoft.compute": "2025-04-01",
  "microsoft.network": "2025-05-01",
  // The resource provider itself, which describes its types and zones.
  "microsoft.compute/": "2021-04-01",
};

/** Azure Stack has only old versions. */
const stackVersions: Versions = {
  "microsoft.network": "2018-11-01",
  "microsoft.network/privatelinkservices": "2019-03-01",
  "microsoft.compute/virtualmachines": "2017-12-01",
  "microsoft.compute/virtualmachinescalesets": "2019-07-01",
  "microsoft.compute/virtualmachinescalesets/virtualmachines": "2019-07-01",
  "microsoft.compute/availabilitysets": "2019-07-01",
};

/**
 * Network resources of scale sets are served by an old version everywhere, which the SDK already requests; the
 * URLs of long-running operations come from ARM and are used unchanged.
 */
const keepsVersion =
  /^microsoft\.compute\/virtualmachinescalesets\/.*(networkinterfaces|publicipaddresses)|^[^/]+\/locations\//u;

export function apiVersionPolicy(stack: boolean): PipelinePolicy {
  const versions = stack ? stackVersions : azureVersions;
  return {
    name: "api-version",
    sendRequest(request, next) {
      const { type } = targetOf(request.url);
      const version = versions[type] ?? versions[type.split("/", 1)[0] ?? ""];
      const url = new URL(request.url);
      const given = url.searchParams.get("api-version");
      if (version === undefined || version === given || keepsVersion.test(type)) return next(request);
      url.searchParams.set("api-version", version);
      request.url = url.href;
      return next(request);
    },
  };
}
