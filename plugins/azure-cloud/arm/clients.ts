import { setImmediate } from "node:timers/promises";

import type { ComputeManagementClient } from "@azure/arm-compute";
import type { NetworkManagementClient } from "@azure/arm-network";
import type { Pipeline } from "@azure/core-rest-pipeline";
import { type CloudContext, isAborted } from "cloud-controller-host/sdk";

import type { AzureConfig } from "../config/decode.ts";
import type { AzureEnvironment } from "../config/environments.ts";
import { isCrossTenant } from "../config/identity.ts";
import { CredentialError, makeCredential, type RenewableCredential } from "./credentials/credential.ts";
import { resolveEnvironment } from "./credentials/resolve-environment.ts";
import { Budget } from "./pipeline/budget.ts";
import { armMetrics } from "./pipeline/metrics.ts";
import { buildPipeline } from "./pipeline/pipeline.ts";
import { WritesInFlight } from "./pipeline/writes-in-flight.ts";
import { planningClient } from "./planning/planning-client.ts";
import { fetchClient, readAuthorities } from "./transport/fetch-client.ts";
import { Troubles } from "./transport/troubles.ts";

/** The clients of one generation. Instances and network resources may belong to different subscriptions and tenants. */
export interface ArmClients {
  readonly compute: ComputeManagementClient;
  /** For the network resources of the cluster: load balancers, public IP addresses, security group, route table. */
  readonly network: NetworkManagementClient;
  /** For network resources in the subscription of the instances: network interfaces, private link services. */
  readonly vmNetwork: NetworkManagementClient;
  readonly computeSubscription: string;
  readonly networkSubscription: string;
  readonly environment: AzureEnvironment;
  /** Requests that fail now. */
  readonly troubles: Troubles;
  readonly writes: WritesInFlight;
  readonly budget: Pick<Budget, "headroom" | "status">;
}

/** `mustHaveToken`: an unreachable login service is an error, too. */
type ClientsContext = Pick<
  CloudContext,
  "clock" | "fence" | "log" | "metrics" | "planning" | "recordWrite" | "signal"
> & {
  readonly mustHaveToken?: boolean;
};

/** Well within the time that a cloud has for its creation, which must succeed while the login service hangs. */
const loginTimeoutMs = 8_000;

const standardUserAgent = "kubernetes-cloudprovider/cloud-controller-host";

/**
 * Resolves the cloud's endpoints, gets a first token and creates the SDK's clients. Rejects, naming the config keys to
 * check, when the cloud or the identity does not exist; an unreachable login service is only logged.
 */
export async function createClients(config: AzureConfig, context: ClientsContext): Promise<ArmClients> {
  const ca = await readAuthorities(config.resourceManagerCAFile);
  const [{ sdk, compute, network }, environment] = await Promise.all([
    loadPackages(),
    resolveEnvironment(config, { ca, signal: context.signal }),
  ]);
  const transport = { ca, createHeaders: sdk.createHttpHeaders };
  // The pipeline decides how requests end with the generation.
  const sending = fetchClient(transport);
  const { planning } = context;
  const httpClient = planning === undefined ? sending : planningClient(sending, planning, sdk.createHttpHeaders);
  const identities = await credentials(config, {
    environment,
    httpClient: fetchClient({ ...transport, signal: context.signal, timeoutMs: loginTimeoutMs }),
  });
  await checkCredential(identities.compute, environment.scope, context);
  const twoTenants = identities.compute !== identities.network;
  const metrics = armMetrics(context.metrics);
  const troubles = new Troubles(context);
  const writes = new WritesInFlight(context.clock);
  const shared = {
    httpClient,
    resourceManager: environment.resourceManager,
    scope: environment.scope,
    stack: environment.stack,
    userAgent: config.userAgent || standardUserAgent,
    minimumRetryAfter: config.enableMinimumRetryAfter,
    fence: context.fence,
    ...(context.recordWrite && { recordWrite: context.recordWrite }),
    clock: context.clock,
    // A plan that failed for a moment's throttling would be incomplete; the host tries again later.
    budget: new Budget(context.clock, metrics, planning && context.signal),
    metrics,
    troubles,
    writes,
    signal: context.signal,
  };
  const pipeline = await buildPipeline({
    ...shared,
    credential: identities.compute,
    auxiliary: twoTenants ? [identities.network] : [],
  });
  const networkPipeline = twoTenants
    ? await buildPipeline({ ...shared, credential: identities.network, auxiliary: [] })
    : pipeline;
  const computeSubscription = config.subscriptionId;
  const networkSubscription = config.networkResourceSubscriptionID || computeSubscription;
  const options = (used: Pipeline) => ({ endpoint: environment.resourceManager, pipeline: used });
  const { NetworkManagementClient: Network } = network;
  return {
    compute: new compute.ComputeManagementClient(identities.compute, computeSubscription, options(pipeline)),
    network: new Network(identities.network, networkSubscription, options(networkPipeline)),
    vmNetwork: new Network(identities.compute, computeSubscription, options(pipeline)),
    computeSubscription,
    networkSubscription,
    environment,
    troubles,
    writes,
    budget: shared.budget,
  };
}

/** One after the other: the event loop is blocked while a package is evaluated, and by all of them for a third of a second. */
async function loadPackages() {
  const sdk = await import("@azure/core-rest-pipeline");
  await setImmediate();
  const compute = await import("@azure/arm-compute");
  await setImmediate();
  const network = await import("@azure/arm-network");
  await setImmediate();
  return { sdk, compute, network };
}

/** Network resources in another tenant have a credential of their own; workload identity has a single one. */
async function credentials(
  config: AzureConfig,
  options: Parameters<typeof makeCredential>[1],
): Promise<{ readonly compute: RenewableCredential; readonly network: RenewableCredential }> {
  const { identity } = config;
  if (!isCrossTenant(config) || identity.kind === "workload-identity") {
    const credential = await makeCredential(identity, options);
    return { compute: credential, network: credential };
  }
  const tenantId = config.networkResourceTenantID;
  const [compute, network] = await Promise.all([
    makeCredential(identity, { ...options, allowedTenants: [tenantId] }),
    makeCredential(identity, { ...options, tenantId }),
  ]);
  return { compute, network };
}

/**
 * Detects a rejected identity while a reload can still be refused. An outage of the login service does not cause a
 * refusal.
 */
async function checkCredential(credential: RenewableCredential, scope: string, context: ClientsContext): Promise<void> {
  try {
    // With the pipeline's own options, so that the first request finds this token in the SDK's cache.
    await credential.getToken(scope, { abortSignal: context.signal, enableCae: true });
  } catch (error) {
    if (isAborted(error) || context.mustHaveToken || (error instanceof CredentialError && error.rejected)) throw error;
    context.log.warn("Failed to get a token for Azure; the first request tries again", { error });
  }
}
