import { mkdir } from "node:fs/promises";
import { join } from "node:path";

import type { CloudSimulator, SimulateOptions } from "cloud-controller-host/sdk";

import { parseArmPath } from "../arm/resource-id.ts";
import type { JsonObject } from "../json.ts";
import { makeCertificate } from "./certificate.ts";
import { type Failure, Faults, RateLimiter, type RateLimits, type RequestMatcher } from "./faults.ts";
import { LoginService, type SimulatedIdentity } from "./identity.ts";
import { drafted } from "./resource-routes.ts";
import { resourceType } from "./resource-types.ts";
import type { Instance, InstanceChange } from "./scale-set-instances.ts";
import { addInstance, type ScaleSetSeed, seedNetwork, seedScaleSet } from "./seed.ts";
import { type LoggedRequest, serveSimulator } from "./server.ts";
import { draftOf, type Resource } from "./store.ts";
import { SubscriptionState } from "./subscription-state.ts";

export interface SimulatorOptions extends SimulateOptions {
  readonly subscriptionId?: string;
  readonly resourceGroup?: string;
  readonly location?: string;
  /** Items a page of every list. ARM does not promise a number; 120 is what scale-set instances come in. */
  readonly pageSize?: number;
  /** How often a long-running operation has to be asked after before it ends; 0 (the default): writes end at once. */
  readonly operationPolls?: number;
  readonly identity?: Partial<SimulatedIdentity>;
  /** Set to have ARM's limits told in headers and enforced with 429. */
  readonly rateLimits?: RateLimits;
}

/** An ARM subscription in this process, over TLS. */
export interface AzureSimulator extends CloudSimulator {
  /** `https://127.0.0.1:<port>`: ARM, the metadata endpoint and the login service alike. */
  readonly origin: string;
  /** PEM file of the certificate authority that signed its certificate. */
  readonly caFile: string;
  /** A file with the service-account token that workload identity presents. */
  readonly federatedTokenFile: string;
  readonly subscriptionId: string;
  readonly resourceGroup: string;
  /** The cloud config with some keys replaced or, where the value is undefined, left out. */
  configWith(changes: JsonObject): string;
  /** Every request so far, with query, If-Match, body and status. */
  readonly log: readonly LoggedRequest[];
  clearLog(): void;
  failNext(matcher: RequestMatcher, failure: Failure): void;
  /** Forgets failures that are still to come. */
  clearFailures(): void;
  setLatency(ms: number): void;
  /** Requests that have come in and are not answered yet. */
  underway(): number;
  get(id: string): Resource | undefined;
  /** Stores a resource as a PUT would, without a request. Ids may leave out everything before `/providers`. */
  put(id: string, body: JsonObject): Resource;
  delete(id: string): boolean;
  addResourceGroup(name: string): void;
  removeResourceGroup(name: string): void;
  addScaleSet(seed: ScaleSetSeed): Resource;
  /** Instances of any scale set, by its id or, in the seeded resource group, by its name. */
  addScaleSetInstances(scaleSet: string, count: number, change?: InstanceChange): readonly Instance[];
  changeInstance(nodeName: string, change: InstanceChange): void;
  /** Leaves the instance out of lists, as a page that was turned at the wrong moment does. */
  hideFromLists(nodeName: string): void;
}

export async function startSimulator(options: SimulatorOptions): Promise<AzureSimulator> {
  const settings = {
    subscription: options.subscriptionId ?? "sub0",
    resourceGroup: options.resourceGroup ?? "rg0",
    location: options.location ?? "eastus",
  };
  const identity: SimulatedIdentity = {
    clientId: "simulated-client",
    clientSecret: crypto.randomUUID(),
    federatedToken: `simulated.${crypto.randomUUID()}`,
    ...options.identity,
  };
  const state = new SubscriptionState({ ...settings, operationPolls: options.operationPolls ?? 0 });
  seedNetwork(state, settings.resourceGroup);
  const faults = new Faults();
  const login = new LoginService(identity);
  const log: LoggedRequest[] = [];
  const certificate = await makeCertificate();
  let latencyMs = options.latencyMs ?? 0;
  const server = serveSimulator({
    state,
    login,
    faults,
    certificate,
    limiter: options.rateLimits === undefined ? undefined : new RateLimiter(options.rateLimits),
    pageSize: options.pageSize ?? 120,
    latencyMs: () => latencyMs,
    log: (request) => void log.push(request),
  });
  const files = await writeFiles(options.directory, certificate.ca, identity.federatedToken);
  const scope = `/subscriptions/${settings.subscription}/resourceGroups/${settings.resourceGroup}`;
  const fullId = (id: string): string => (id.startsWith("/subscriptions/") ? id : `${scope}${id}`);
  const config = baseConfig(server.origin, files.caFile, settings, identity);
  const scaleSetId = (name: string): string =>
    name.includes("/") ? name : fullId(`/providers/Microsoft.Compute/virtualMachineScaleSets/${name}`);
  const addScaleSetInstances = (scaleSet: string, count: number, change?: InstanceChange): readonly Instance[] =>
    Array.from({ length: count }, () => addInstance(state, scaleSetId(scaleSet), change));
  return {
    ...files,
    origin: server.origin,
    subscriptionId: settings.subscription,
    resourceGroup: settings.resourceGroup,
    cloudConfig: yamlOf(config),
    configWith: (changes) => JSON.stringify({ ...config, ...changes }, undefined, 2),
    log,
    clearLog: () => void log.splice(0),
    requests: () => log.map(({ method, path }) => `${method} ${path}`),
    failNext: (matcher, failure) => faults.failNext(matcher, failure),
    clearFailures: () => faults.clear(),
    underway: server.underway,
    setLatency: (ms) => void (latencyMs = ms),
    get: (id) => state.store.get(fullId(id)),
    put: (id, body) => putResource(state, fullId(id), body),
    delete: (id) => state.store.delete(fullId(id)),
    addResourceGroup: (name) => state.store.addGroup(settings.subscription, name),
    removeResourceGroup: (name) => state.store.removeGroup(settings.subscription, name),
    addScaleSet: (seed) => seedScaleSet(state, settings.resourceGroup, seed),
    addScaleSetInstances,
    addInstances: (count) =>
      Promise.resolve(
        addScaleSetInstances("vmss0", count).map(({ computerName, privateIP }) => ({
          nodeName: computerName.toLowerCase(),
          internalIP: privateIP,
        })),
      ),
    changeInstance: (nodeName, change) => state.changeInstance(nodeName, change),
    hideFromLists: (nodeName) => state.changeInstance(nodeName, { hidden: true }),
    removeInstance(nodeName) {
      for (const instances of state.allInstances()) instances.remove(instances.named(nodeName)?.instanceId ?? "");
      return Promise.resolve();
    },
    describe: () => [
      `Azure Resource Manager, simulated, at ${server.origin} (certificate authority: ${files.caFile})`,
      `subscription ${settings.subscription}, resource group ${settings.resourceGroup}, location ${settings.location}`,
    ],
    [Symbol.asyncDispose]: () => server.stop(),
  };
}

function putResource(state: SubscriptionState, id: string, body: JsonObject): Resource {
  const path = parseArmPath(id);
  const type = resourceType(`${path?.provider ?? ""}/${path?.type ?? ""}`);
  const draft = type === undefined ? draftOf(body) : drafted(state, type, id, body);
  return state.store.put(id, { ...draft, location: draft["location"] ?? state.location });
}

async function writeFiles(
  directory: string,
  ca: string,
  federatedToken: string,
): Promise<{ readonly caFile: string; readonly federatedTokenFile: string }> {
  await mkdir(directory, { recursive: true });
  const caFile = join(directory, "arm-ca.pem");
  const federatedTokenFile = join(directory, "federated-token");
  await Promise.all([Bun.write(caFile, ca), Bun.write(federatedTokenFile, federatedToken)]);
  return { caFile, federatedTokenFile };
}

function baseConfig(
  origin: string,
  caFile: string,
  settings: { readonly subscription: string; readonly resourceGroup: string; readonly location: string },
  identity: SimulatedIdentity,
): JsonObject {
  return {
    cloud: "AzurePublicCloud",
    tenantId: "adfs",
    subscriptionId: settings.subscription,
    aadClientId: identity.clientId,
    aadClientSecret: identity.clientSecret,
    resourceManagerEndpoint: origin,
    resourceManagerCAFile: caFile,
    resourceGroup: settings.resourceGroup,
    location: settings.location,
    vmType: "vmss",
    primaryScaleSetName: "vmss0",
    vnetName: "vnet0",
    subnetName: "subnet0",
    securityGroupName: "nsg0",
    routeTableName: "rt0",
    loadBalancerSku: "standard",
    excludeMasterFromStandardLB: false,
    useInstanceMetadata: false,
  };
}

/** A flat mapping as YAML, which is kinder to edit by hand than JSON. */
const yamlOf = (config: Readonly<Record<string, unknown>>): string =>
  Object.entries(config)
    .map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`)
    .join("");
