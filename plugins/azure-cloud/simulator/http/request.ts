import { type ArmPath, sameName } from "../../arm/resource-id.ts";
import { ArmFault, notFound } from "../faults.ts";
import type { Resource } from "../state/store.ts";
import type { SubscriptionState } from "../state/subscription-state.ts";

/** A parsed request to ARM. */
export interface SimulatedRequest {
  readonly method: string;
  readonly url: URL;
  readonly path: ArmPath;
  readonly body: unknown;
  readonly pageSize: number;
  /** See `SimulatorOptions`. */
  readonly ignoresIfNoneMatch: boolean;
  /** URL of the next page, after the item that `token` stands for. */
  nextLink(token: string): string;
  /** Refuses with 412 when the request's `If-Match` or `If-None-Match` does not fit the etag. */
  checkIfMatch(etag: string | undefined): void;
  /** The long-running operation started by this write ends with this fault. */
  readonly operationFault: ArmFault | undefined;
  /** URL to poll an operation started by this request. */
  operationUrl(kind: "operations" | "operationResults", id: string): string;
}

export function simulatedRequest(
  request: Request,
  parts: Pick<SimulatedRequest, "path" | "body" | "pageSize" | "operationFault" | "ignoresIfNoneMatch">,
): SimulatedRequest {
  const url = new URL(request.url);
  return {
    ...parts,
    method: request.method,
    url,
    nextLink(token) {
      const next = new URL(url);
      next.searchParams.set("$skiptoken", token);
      return next.href;
    },
    operationUrl(kind, id) {
      const { subscription, provider } = parts.path;
      return `${url.origin}/subscriptions/${subscription}/providers/${provider ?? ""}/locations/here/${kind}/${id}?api-version=2024-01-01`;
    },
    checkIfMatch(etag) {
      const wanted = request.headers.get("if-match");
      if (wanted !== null && wanted !== "*" && wanted !== etag)
        throw new ArmFault(
          412,
          "PreconditionFailed",
          "Precondition failed: the resource has changed since it was read.",
        );
      if (!parts.ignoresIfNoneMatch && request.headers.get("if-none-match") === "*" && etag !== undefined)
        throw new ArmFault(412, "PreconditionFailed", "Precondition failed: the resource exists already.");
    },
  };
}

/** Refuses as ARM does when the subscription or the resource group of a path does not exist. */
export function checkScope(state: SubscriptionState, path: ArmPath): void {
  if (!sameName(path.subscription, state.subscription))
    throw new ArmFault(404, "SubscriptionNotFound", `The subscription '${path.subscription}' could not be found.`);
  if (path.resourceGroup !== undefined && !state.store.hasGroup(path.subscription, path.resourceGroup))
    throw new ArmFault(404, "ResourceGroupNotFound", `Resource group '${path.resourceGroup}' could not be found.`);
}

/** The id of the resource at the first `depth` names of a path. */
export function idOf(path: ArmPath, depth: number): string {
  const scope = path.resourceGroup === undefined ? "" : `/resourceGroups/${path.resourceGroup}`;
  const types = path.type.split("/");
  const segments = path.names.slice(0, depth).map((name, index) => `/${types[index] ?? ""}/${name}`);
  return `/subscriptions/${path.subscription}${scope}/providers/${path.provider ?? ""}${segments.join("")}`;
}

export function lookUpScaleSet(state: SubscriptionState, path: ArmPath): Resource {
  const id = idOf(path, 1);
  const scaleSet = state.store.get(id);
  if (scaleSet === undefined)
    throw path.type.includes("/")
      ? new ArmFault(404, "ParentResourceNotFound", `The parent resource of '${id}' could not be found.`)
      : notFound(id);
  return scaleSet;
}
