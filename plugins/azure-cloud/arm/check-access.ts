import type { PipelineResponse } from "@azure/core-rest-pipeline";
import {
  type AccessContext,
  type AccessResult,
  CodedError,
  type Fence,
  FencedError,
  isObject,
  messageOf,
  type Metrics,
  recurringMessageOf,
} from "cloud-controller-host/sdk";

import type { AzureConfig } from "../config/decode.ts";
import { type ActionScope, type Grant, isGranted, requiredActions } from "../config/required-actions.ts";
import { objectsAt, parseJson, stringAt, stringsAt } from "../json.ts";
import { type ArmClients, createClients } from "./clients.ts";
import { ArmError } from "./errors.ts";

const permissionsVersion = "2022-04-01";

const noMetrics: Metrics = {
  counter: () => ({ inc: () => undefined }),
  gauge: () => ({ set: () => undefined }),
  histogram: () => ({ observe: () => undefined }),
};

/** Refuses every write: a check must not change anything. */
const closedFence: Fence = {
  closed: true,
  check(what) {
    throw new FencedError(what, "a check of the credentials sends no writes");
  },
  signal: new AbortController().signal,
};

/** Gets a token, reads what controllers will read, and compares the granted actions with the needed ones. */
export async function checkAccess(config: AzureConfig, context: AccessContext): Promise<readonly AccessResult[]> {
  const clients = await createClients(config, {
    ...context,
    metrics: noMetrics,
    fence: closedFence,
    mustHaveToken: true,
  });
  const reads = await Promise.all(readsOf(config, clients).map(([subject, read]) => tryRead(subject, read)));
  const actions = await Promise.all(requiredActions(config).map((scope) => checkActions(clients, scope)));
  return [{ subject: "token from the login service", outcome: "allowed" }, ...reads, ...actions.flat()];
}

type Read = readonly [subject: string, read: () => PromiseLike<unknown>];

/** The first page of each list, and each named resource. */
function readsOf(config: AzureConfig, { compute, network }: ArmClients): readonly Read[] {
  const group = config.resourceGroup;
  const inGroup = (key: string): string => key || group;
  const named = (kind: string, name: string, read: () => PromiseLike<unknown>): readonly Read[] =>
    name === "" ? [] : [[`read ${kind} ${name}`, read]];
  return [
    [`list scale sets in ${group}`, () => compute.virtualMachineScaleSets.list(group).byPage().next()],
    [`list virtual machines in ${group}`, () => compute.virtualMachines.list(group).byPage().next()],
    [
      `list load balancers in ${inGroup(config.loadBalancerResourceGroup)}`,
      () => network.loadBalancers.list(inGroup(config.loadBalancerResourceGroup)).byPage().next(),
    ],
    [`list public IP addresses in ${group}`, () => network.publicIPAddresses.list(group).byPage().next()],
    ...named("network security group", config.securityGroupName, () =>
      network.networkSecurityGroups.get(inGroup(config.securityGroupResourceGroup), config.securityGroupName),
    ),
    ...named("route table", config.routeTableName, () =>
      network.routeTables.get(inGroup(config.routeTableResourceGroup), config.routeTableName),
    ),
    ...named("subnet", config.vnetName === "" ? "" : config.subnetName, () =>
      network.subnets.get(inGroup(config.vnetResourceGroup), config.vnetName, config.subnetName),
    ),
  ];
}

async function tryRead(subject: string, read: () => PromiseLike<unknown>): Promise<AccessResult> {
  try {
    await read();
    return { subject, outcome: "allowed" };
  } catch (error) {
    return { subject, ...failureOf(error) };
  }
}

const outcomes: Readonly<Record<number, AccessResult["outcome"]>> = { 401: "denied", 403: "denied", 404: "missing" };

/** The config keys to check, by the code of ARM's error. */
const keysByCode: Readonly<Record<string, string>> = {
  SubscriptionNotFound: "check subscriptionId and networkResourceSubscriptionID",
  InvalidSubscriptionId: "check subscriptionId and networkResourceSubscriptionID",
  ResourceGroupNotFound: "check resourceGroup and the other keys that end in ResourceGroup",
};

/** Outcome, detail and cause; the cause is ARM's message without the parts that differ between requests. */
function failureOf(error: unknown): Omit<AccessResult, "subject"> {
  const detail = messageOf(error);
  if (!(error instanceof ArmError)) return { outcome: "unknown", detail };
  const text = recurringMessageOf(error).replace(/^ARM \S+ \S+: /u, "");
  const keys = keysByCode[error.code];
  return { outcome: outcomes[error.status] ?? "unknown", detail, cause: keys === undefined ? text : `${text} ${keys}` };
}

async function checkActions(clients: ArmClients, scope: ActionScope): Promise<readonly AccessResult[]> {
  const where = `on resource group ${scope.resourceGroup}`;
  const subjectOf = (action: string): string => `${action} ${where}`;
  try {
    const grants = await grantsAt(clients, scope);
    return scope.actions.map((action) =>
      isGranted(grants, action)
        ? { subject: subjectOf(action), outcome: "allowed" }
        : { subject: subjectOf(action), outcome: "denied", detail: "no role assignment grants this action" },
    );
  } catch (error) {
    const failure = failureOf(error);
    // Who may not read the permissions may still have them.
    const outcome = failure.outcome === "missing" ? "missing" : "unknown";
    return scope.actions.map((action) => ({ subject: subjectOf(action), ...failure, outcome }));
  }
}

/** The caller's own permissions, which every identity may read. */
async function grantsAt(clients: ArmClients, scope: ActionScope): Promise<readonly Grant[]> {
  const { createPipelineRequest } = await import("@azure/core-rest-pipeline");
  const { pipeline } = scope.network ? clients.network : clients.compute;
  const path = `/subscriptions/${scope.subscription}/resourceGroups/${scope.resourceGroup}`;
  const first = `${path}/providers/Microsoft.Authorization/permissions?api-version=${permissionsVersion}`;
  const grants: Grant[] = [];
  for (let url: string | undefined = new URL(first, clients.environment.resourceManager).href; url !== undefined;) {
    const response = await pipeline.sendRequest(unusedClient, createPipelineRequest({ url }));
    const body = parseJson(response.bodyAsText ?? "");
    if (!isObject(body)) throw new CodedError("InvalidReply", "ARM's list of permissions is not a JSON object");
    for (const item of objectsAt(body, "value"))
      grants.push({ actions: stringsAt(item, "actions"), notActions: stringsAt(item, "notActions") });
    url = stringAt(body, "nextLink") || undefined;
  }
  return grants;
}

/** The pipeline sends with the HTTP client that it was built with. */
const unusedClient = {
  sendRequest: (): Promise<PipelineResponse> => Promise.reject(new CodedError("Internal", "not the pipeline's client")),
};
