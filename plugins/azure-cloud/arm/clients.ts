import type { ComputeManagementClient } from "@azure/arm-compute";
import type { NetworkManagementClient } from "@azure/arm-network";
import type { Pipeline } from "@azure/core-rest-pipeline";
import type { TokenCredential } from "@azure/identity";
import { type CloudContext, isAborted } from "cloud-controller-host/sdk";

import type { AzureConfig } from "../config/decode.ts";
import { isCrossTenant } from "../config/identity.ts";
import { Budget } from "./budget.ts";
import { CredentialError, makeCredential } from "./credential.ts";
import type { AzureEnvironment } from "./environments.ts";
import { fetchClient, readAuthorities } from "./fetch-client.ts";
import { armMetrics } from "./metrics.ts";
import { buildPipeline } from "./pipeline.ts";
import { resolveEnvironment } from "./resolve-environment.ts";

/** The clients of one generation. Machines and network resources may belong to different subscriptions and tenants. */
export interface ArmClients {
  readonly compute: ComputeManagementClient;
  /** For the network resources of the cluster: load balancers, public IP addresses, security group, route table. */
  readonly network: NetworkManagementClient;
  /** For what belongs to the machines, in their subscription: network interfaces, private link services. */
  readonly machineNetwork: NetworkManagementClient;
  readonly computeSubscription: string;
  readonly networkSubscription: string;
  readonly environment: AzureEnvironment;
}

/** `mustHaveToken`: a login service that does not answer is an error, too. */
type ClientsContext = Pick<CloudContext, "clock" | "fence" | "log" | "metrics" | "signal"> & {
  readonly mustHaveToken?: boolean;
};

const standardUserAgent = "kubernetes-cloudprovider/cloud-controller-host";

/**
 * Finds out the cloud's addresses, gets a first token and makes the SDK's clients. Rejects, with the keys to look at,
 * when the cloud or the identity is not there; a login service that is only out of reach is logged and asked later.
 */
export async function createClients(config: AzureConfig, context: ClientsContext): Promise<ArmClients> {
  const ca = await readAuthorities(config.resourceManagerCAFile);
  const [sdk, compute, network, environment] = await Promise.all([
    import("@azure/core-rest-pipeline"),
    import("@azure/arm-compute"),
    import("@azure/arm-network"),
    resolveEnvironment(config, { ca, signal: context.signal }),
  ]);
  const httpClient = fetchClient({ ca, signal: context.signal, createHeaders: sdk.createHttpHeaders });
  const identities = await credentials(config, { environment, httpClient });
  await checkCredential(identities.compute, environment.scope, context);
  const twoTenants = identities.compute !== identities.network;
  const metrics = armMetrics(context.metrics);
  const shared = {
    httpClient,
    scope: environment.scope,
    stack: environment.stack,
    userAgent: config.userAgent || standardUserAgent,
    minimumRetryAfter: config.enableMinimumRetryAfter,
    fence: context.fence,
    clock: context.clock,
    budget: new Budget(context.clock, metrics),
    metrics,
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
    machineNetwork: new Network(identities.compute, computeSubscription, options(pipeline)),
    computeSubscription,
    networkSubscription,
    environment,
  };
}

/** In another tenant the network resources have a credential of their own; workload identity has only the one. */
async function credentials(
  config: AzureConfig,
  options: Parameters<typeof makeCredential>[1],
): Promise<{ readonly compute: TokenCredential; readonly network: TokenCredential }> {
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

/** A refused identity is found now, while a reload can still be turned down; it is not worth an outage of the login. */
async function checkCredential(credential: TokenCredential, scope: string, context: ClientsContext): Promise<void> {
  try {
    // As the pipeline asks for it, so that this token is the one that the first request finds in the SDK's cache.
    await credential.getToken(scope, { abortSignal: context.signal, enableCae: true });
  } catch (error) {
    if (isAborted(error) || context.mustHaveToken || (error instanceof CredentialError && error.rejected)) throw error;
    context.log.warn("no token for Azure yet; it is asked for again with the first request", { error });
  }
}
