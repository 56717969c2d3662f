import { isObject } from "cloud-controller-host/sdk";

import type { ArmPath } from "../../arm/resource-id.ts";
import { objectsAt } from "../../json.ts";
import { ArmFault, type ArmReply } from "../faults.ts";
import { bodyProblem, type Definition, definitionOf } from "../schema/body-check.ts";
import type { SimulatedRequest } from "./request.ts";

const definitionAt = ({ provider = "", type }: ArmPath): Definition | undefined => definitionOf(`${provider}/${type}`);

/** Refuses a body that does not fit its published definition, with the code and words of the resource provider. */
export function checkRequest({ method, path, body }: SimulatedRequest): void {
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
export function checkReply({ method, path }: SimulatedRequest, { status, body }: ArmReply): void {
  const definition = definitionAt(path);
  if (definition === undefined || !isObject(body) || status >= 300 || (method !== "GET" && method !== "PUT")) return;
  for (const one of path.collection ? objectsAt(body, "value") : [body]) {
    const problem = bodyProblem(definition, one, "reply");
    if (problem !== undefined) throw new ArmFault(400, "InvalidSimulatorReply", `${String(one["id"])}: ${problem}`);
  }
}
