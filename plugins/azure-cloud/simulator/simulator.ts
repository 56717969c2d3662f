import { mkdir } from "node:fs/promises";
import { join } from "node:path";

import type { CloudSimulator, SimulatedContents, SimulateOptions } from "cloud-controller-host/sdk";

import { sameName } from "../arm/resource-id.ts";
import type { JsonObject } from "../json.ts";
import { configOf, loadContents } from "./contents.ts";
import { faultPath } from "./fault-paths.ts";
import {
  type Failure,
  Faults,
  type Hold,
  type HoldStage,
  RateLimiter,
  type RateLimits,
  type RequestMatcher,
} from "./faults.ts";
import { processCertificate } from "./http/certificate.ts";
import { LoginService, type SimulatedIdentity } from "./http/identity.ts";
import { type LoggedRequest, serveSimulator } from "./http/server.ts";
import { seedNetwork } from "./seed.ts";
import { showResources } from "./show.ts";
import { accessTo, type StateAccess } from "./state-access.ts";
import { defaultLimits, type SubscriptionLimits } from "./state/limits.ts";
import type { OperationSettings } from "./state/operations.ts";
import { type SimulatedGrant, SubscriptionState } from "./state/subscription-state.ts";

export interface SimulatorOptions extends SimulateOptions {
  readonly subscriptionId?: string;
  readonly resourceGroup?: string;
  readonly location?: string;
  /** Items per page of every list. ARM guarantees no number; it uses 120 for scale-set instances. */
  readonly pageSize?: number;
  /** ARM leaves it to resource providers whether `If-None-Match: *` has an effect. Default: it has. */
  readonly ignoresIfNoneMatch?: boolean;
  /** Load balancers show a network interface in their pools as it was before a write in progress. Default: as it is. */
  readonly showsMembersLate?: boolean;
  /** Number of polls before a long-running operation ends; with 0, the default, all end at once. */
  readonly operationPolls?: number;
  /** The headers with the URL to poll; default `azure-asyncoperation`, and both for a DELETE. */
  readonly operationStyle?: OperationSettings["style"];
  /** Time after its last poll after which an operation ends by itself; default one minute. */
  readonly operationUnpolledMs?: number;
  readonly limits?: Partial<SubscriptionLimits>;
  readonly identity?: Partial<SimulatedIdentity>;
  /** Roles that the permissions API reports; nothing is enforced. Default: Owner. */
  readonly grants?: readonly SimulatedGrant[];
  /** ARM's limits, reported in headers and enforced with 429. */
  readonly rateLimits?: RateLimits;
}

/** An ARM subscription in this process, over TLS. */
export interface AzureSimulator extends CloudSimulator, StateAccess {
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
  /** All requests so far, with query, preconditions, body and status. */
  readonly log: readonly LoggedRequest[];
  clearLog(): void;
  failNext(matcher: RequestMatcher, failure: Failure): void;
  /** Holds matching requests until released. */
  hold(matcher: RequestMatcher, stage?: HoldStage): Hold;
  pendingFailures(): number;
  /** Drops pending failures. */
  clearFailures(): void;
  setLatency(ms: number): void;
  /** Makes ARM refuse every token that was issued so far. */
  revokeTokens(): void;
  /** Replaces the client secret: the former one and its tokens are refused. */
  rotateSecret(clientSecret: string): void;
  /** Requests in progress. */
  underway(): number;
}

const operationsOf = (options: SimulatorOptions): OperationSettings => ({
  polls: options.operationPolls ?? 0,
  style: options.operationStyle ?? "azure-asyncoperation",
  maxUnpolledMs: options.operationUnpolledMs,
  showsMembersLate: options.showsMembersLate,
});

export async function startSimulator(options: SimulatorOptions): Promise<AzureSimulator> {
  const { contents } = options;
  const settings = {
    subscription: options.subscriptionId ?? textOf(contents, "subscriptionId") ?? "sub0",
    resourceGroup: options.resourceGroup ?? textOf(contents, "resourceGroup") ?? "rg0",
    location: options.location ?? textOf(contents, "location") ?? "eastus",
  };
  const identity: SimulatedIdentity = {
    clientId: "simulated-client",
    clientSecret: crypto.randomUUID(),
    federatedToken: `simulated.${crypto.randomUUID()}`,
    ...options.identity,
  };
  const state = new SubscriptionState({
    ...settings,
    operations: operationsOf(options),
    limits: { ...defaultLimits, ...options.limits },
    grants: options.grants ?? [{ actions: ["*"], notActions: [] }],
  });
  if (contents === undefined) seedNetwork(state, settings.resourceGroup);
  else state.store.addGroup(settings.subscription, settings.resourceGroup);
  const faults = new Faults();
  const login = new LoginService(identity);
  const log: LoggedRequest[] = [];
  const certificate = await processCertificate();
  let latencyMs = options.latencyMs ?? 0;
  let slowness = { ms: 0, until: 0 };
  const access = accessTo(state, settings.resourceGroup);
  if (contents !== undefined) loadContents(state, contents, (id, body) => access.put(id, body));
  const server = serveSimulator({
    state,
    login,
    faults,
    certificate,
    limiter: options.rateLimits === undefined ? undefined : new RateLimiter(options.rateLimits),
    pageSize: options.pageSize ?? 120,
    ignoresIfNoneMatch: options.ignoresIfNoneMatch ?? false,
    latencyMs: () => latencyMs + (performance.now() < slowness.until ? slowness.ms : 0),
    log: (request) => void log.push(request),
  });
  const files = await writeFiles(options.directory, certificate.ca, identity.federatedToken);
  const config = configOf(contents, baseConfig(server.origin, files.caFile, settings, identity));
  return {
    ...files,
    origin: server.origin,
    subscriptionId: settings.subscription,
    resourceGroup: settings.resourceGroup,
    cloudConfig: yamlOf({ ...config, ...(options.shortCaches === true ? shortCaches : {}) }),
    configWith: (changes) => JSON.stringify({ ...config, ...changes }, undefined, 2),
    log,
    clearLog: () => void log.splice(0),
    requests: () => log.map(({ method, path }) => `${method} ${path}`),
    failNext: (matcher, failure) => faults.failNext(matcher, failure),
    hold: (matcher, stage = "request") => faults.hold(matcher, stage),
    pendingFailures: () => faults.pending,
    clearFailures: () => faults.clear(),
    underway: server.underway,
    revokeTokens: () => login.revokeTokens(),
    rotateSecret: (clientSecret) => login.rotateSecret(clientSecret),
    setLatency: (ms) => void (latencyMs = ms),
    setPowerState: (nodeName, powerState) => Promise.resolve(state.changeInstance(nodeName, { powerState })),
    show: (service) => showResources(access.resources(), service),
    fail: ({ method, path, status, forMs }) => faults.failFor({ method, path: faultPath(path) }, status, forMs),
    slow(ms, forMs) {
      slowness = { ms, until: performance.now() + forMs };
    },
    recover() {
      faults.clear();
      slowness = { ms: 0, until: 0 };
    },
    disturb: (how, forMs) => faults.disturb(how === "throttled" ? 429 : 503, forMs),
    ...access,
    describe: () => [
      `simulated Azure Resource Manager at ${server.origin}`,
      `CA certificate ${files.caFile}`,
      `subscription ${settings.subscription}, resource group ${settings.resourceGroup}, location ${settings.location}`,
    ],
    [Symbol.asyncDispose]: () => server.stop(),
  };
}

/** A key of a bundle's cloud config, whatever its case. */
function textOf(contents: SimulatedContents | undefined, key: string): string | undefined {
  const value = Object.entries(contents?.cloudConfig ?? {}).find(([name]) => sameName(name, key))?.[1];
  return typeof value === "string" && value !== "" ? value : undefined;
}

const shortCaches = {
  vmCacheTTLInSeconds: 2,
  vmssCacheTTLInSeconds: 2,
  vmssVirtualMachinesCacheTTLInSeconds: 2,
  loadBalancerCacheTTLInSeconds: 2,
} as const;

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

/** A flat mapping as YAML, which is easier to edit than JSON. */
const yamlOf = (config: Readonly<Record<string, unknown>>): string =>
  Object.entries(config)
    .map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`)
    .join("");
