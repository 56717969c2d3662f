import { isObject } from "cloud-controller-host/sdk";

import type { ArmPath } from "../../arm/resource-id.ts";
import { objectsAt } from "../../json.ts";
import { ArmFault, type ArmReply, methodNotAllowed } from "../faults.ts";
import { resourceTypes } from "../resources/resource-types.ts";
import { bodyProblem, type Definition, definitionOf } from "../schema/body-check.ts";
import type { SubscriptionState } from "../state/subscription-state.ts";
import { checkScope, type SimulatedRequest } from "./request.ts";
import { resourceRoute } from "./resource-routes.ts";
import { scaleSetRoute } from "./scale-set-routes.ts";

type Route = (request: SimulatedRequest, state: SubscriptionState) => ArmReply | undefined;

const isType = (path: ArmPath, type: string): boolean => path.type.toLowerCase() === type;

/** `…/locations/{place}/operations/{id}` shows the progress of a write; `operationResults` answers in its place. */
function operationRoute({ path, method }: SimulatedRequest, state: SubscriptionState): ArmReply | undefined {
  const results = isType(path, "locations/operationresults");
  if (!results && !isType(path, "locations/operations")) return undefined;
  if (method !== "GET") throw methodNotAllowed(method, path.type);
  const progress = state.operations.poll(path.names[1] ?? "");
  if (progress === undefined) throw new ArmFault(404, "OperationNotFound", "The operation does not exist.");
  const { status, fault, result } = progress;
  if (!results)
    return {
      status: 200,
      body: { status, ...(fault === undefined ? {} : { error: { code: fault.code, message: fault.message } }) },
    };
  if (fault !== undefined) throw fault;
  return status === "InProgress" ? { status: 202 } : { status: 200, body: result };
}

/** `GET /subscriptions/{s}/providers/{namespace}`: the types of a provider and their zones. */
function providerRoute({ path, method }: SimulatedRequest, state: SubscriptionState): ArmReply | undefined {
  if (path.type !== "" || path.provider === undefined) return undefined;
  if (method !== "GET") throw methodNotAllowed(method, path.provider);
  const namespace = path.provider;
  const prefix = `${namespace}/`.toLowerCase();
  const zoneMappings = [{ location: state.location, zones: ["1", "2", "3"] }];
  const types = resourceTypes.flatMap(({ type }) =>
    type.toLowerCase().startsWith(prefix)
      ? [{ resourceType: type.slice(prefix.length), locations: [state.location], zoneMappings }]
      : [],
  );
  const id = `/subscriptions/${path.subscription}/providers/${namespace}`;
  return { status: 200, body: { id, namespace, registrationState: "Registered", resourceTypes: types } };
}

function groupRoute({ path, method }: SimulatedRequest, state: SubscriptionState): ArmReply | undefined {
  if (path.provider !== undefined || path.resourceGroup === undefined) return undefined;
  if (method !== "GET") throw methodNotAllowed(method, path.resourceGroup);
  const id = `/subscriptions/${path.subscription}/resourceGroups/${path.resourceGroup}`;
  const properties = { provisioningState: "Succeeded" };
  return { status: 200, body: { id, name: path.resourceGroup, location: state.location, properties } };
}

/** `…/providers/Microsoft.Authorization/permissions`: the caller's own permissions at a scope. */
function permissionsRoute({ path, method }: SimulatedRequest, state: SubscriptionState): ArmReply | undefined {
  if (path.provider?.toLowerCase() !== "microsoft.authorization" || !isType(path, "permissions")) return undefined;
  if (method !== "GET") throw methodNotAllowed(method, path.type);
  return { status: 200, body: { value: state.grants } };
}

/** Tried in order; the first that serves the path replies. */
const routes: readonly Route[] = [
  operationRoute,
  permissionsRoute,
  providerRoute,
  groupRoute,
  scaleSetRoute,
  resourceRoute,
];

/** ARM's reply. Refusals are thrown as `ArmFault`. */
export function answerArm(request: SimulatedRequest, state: SubscriptionState): ArmReply {
  checkScope(state, request.path);
  if (request.url.searchParams.get("api-version") === null)
    throw new ArmFault(
      400,
      "MissingApiVersionParameter",
      "The api-version query parameter (?api-version=) is required.",
    );
  checkRequest(request);
  state.operations.endUnpolled();
  for (const route of routes) {
    const reply = route(request, state);
    if (reply === undefined) continue;
    checkReply(request, reply);
    return reply;
  }
  throw new ArmFault(404, "InvalidResourceType", `The path '${request.url.pathname}' is unknown.`);
}

const definitionAt = ({ provider = "", type }: ArmPath): Definition | undefined => definitionOf(`${provider}/${type}`);

/** Refuses a body that does not fit its published definition, with the code and words of the resource provider. */
function checkRequest({ method, path, body }: SimulatedRequest): void {
  const definition = method === "PUT" && !path.collection ? definitionAt(path) : undefined;
  if (definition === undefined) return;
  const problem = isObject(body) ? bodyProblem(definition, body, "request") : "Unexpected end of content.";
  if (problem === undefined) return;
  // Source: refusals quoted in Azure/azure-powershell#13544 (network) and Azure/azure-cli#18855 (compute).
  throw path.provider?.toLowerCase() === "microsoft.network"
    ? new ArmFault(400, "InvalidRequestFormat", `Cannot parse the request. InvalidJson: ${problem}`)
    : new ArmFault(400, "BadRequest", problem);
}

/** Throws for a reply that ARM could not send: an error of the simulator, or of a test that seeds what ARM cannot hold. */
function checkReply({ method, path }: SimulatedRequest, { status, body }: ArmReply): void {
  const definition = definitionAt(path);
  if (definition === undefined || !isObject(body) || status >= 300 || (method !== "GET" && method !== "PUT")) return;
  for (const one of path.collection ? objectsAt(body, "value") : [body]) {
    const problem = bodyProblem(definition, one, "reply");
    if (problem !== undefined) throw new ArmFault(400, "InvalidSimulatorReply", `${String(one["id"])}: ${problem}`);
  }
}
