import { Type } from "cloud-controller-host/sdk";

import { flag, number, seconds, secret, text, whole } from "./schema-types.ts";

/** Which cloud, how to reach it, and as whom. */
export const armKeys = {
  cloud: text(
    "Name of the Azure cloud: AzurePublicCloud (the default), AzureChinaCloud, AzureUSGovernmentCloud or AzureStackCloud.",
  ),
  resourceManagerEndpoint: text(
    "URL of Azure Resource Manager. When set, the cloud's other addresses are read from its /metadata/endpoints.",
  ),
  resourceManagerCAFile: text(
    "PEM file of certificate authorities to trust, besides the usual ones, for Resource Manager and the login service.",
  ),
  disableAzureStackCloud: flag(false, "With cloud AzureStackCloud, keep its addresses but behave as in public Azure."),
  userAgent: text(
    "User-Agent header of every request to Azure; default kubernetes-cloudprovider/cloud-controller-host.",
  ),
  tenantId: text("Tenant of the identity. AZURE_TENANT_ID overrides it."),
  subscriptionId: text("Subscription of the cluster's machines."),
  networkResourceTenantID: text("Tenant of the network resources, where it is another one."),
  networkResourceSubscriptionID: text("Subscription of the network resources, where it is another one."),
  cloudProviderBackoff: flag(false, "Repeat failed look-ups of machines and addresses before an error is reported."),
  cloudProviderBackoffRetries: whole(6, "How often such a look-up is tried."),
  cloudProviderBackoffDuration: seconds(5, "First pause between two tries of a look-up."),
  cloudProviderBackoffExponent: number(1.5, "Each further pause is longer by this factor."),
  cloudProviderBackoffJitter: number(1, "Part of a pause that is random."),
  enableMinimumRetryAfter: flag(false, "Ignore a Retry-After of a successful reply that is shorter than 5 seconds."),
};

export const authKeys = {
  aadClientId: text("Client id of the service principal or workload identity. AZURE_CLIENT_ID overrides it."),
  aadClientSecret: secret("Client secret of the service principal. AZURE_CLIENT_SECRET overrides it."),
  aadClientCertPath: text("PEM file with the service principal's certificate and private key."),
  aadClientCertPassword: secret("Password of that private key."),
  useManagedIdentityExtension: flag(false, "Authenticate as the machine's managed identity."),
  userAssignedIdentityID: text("Client id or resource id of a user-assigned identity; empty: the system-assigned one."),
  useFederatedWorkloadIdentityExtension: flag(false, "Authenticate with a projected service-account token."),
  aadFederatedTokenFile: text(
    "File with that token. AZURE_FEDERATED_TOKEN_FILE overrides it and switches workload identity on.",
  ),
  auxiliaryTokenProvider: Type.Optional(
    Type.Object(
      {
        subscriptionID: text("Subscription of the key vault."),
        resourceGroup: text("Resource group of the key vault."),
        vaultName: text("Name of the key vault."),
        secretName: text("Name of its secret that holds a token of the network tenant."),
      },
      { description: "Where a token of the network tenant is read for a managed identity of another tenant." },
    ),
  ),
  aadMSIDataPlaneIdentityPath: text("File with credentials of a user-assigned identity from the MSI data plane."),
  identitySystem: text("azure_ad or adfs; accepted and not used."),
};

const limits = {
  cloudProviderRateLimit: flag(
    false,
    "Accepted and not used: the budget follows the limits that Azure itself reports.",
  ),
  cloudProviderRateLimitQPS: number(1, "Accepted and not used."),
  cloudProviderRateLimitBucket: whole(5, "Accepted and not used."),
  cloudProviderRateLimitQPSWrite: number(1, "Accepted and not used."),
  cloudProviderRateLimitBucketWrite: whole(5, "Accepted and not used."),
};

const limitsOf = (client: string) =>
  Type.Optional(Type.Object(limits, { description: `Limits of the ${client} client; accepted and not used.` }));

/** Read so that old configs are understood; upstream does not act on them either. */
export const rateLimitKeys = {
  ...limits,
  loadBalancerRateLimit: limitsOf("load balancer"),
  publicIPAddressRateLimit: limitsOf("public IP address"),
  securityGroupRateLimit: limitsOf("security group"),
  routeTableRateLimit: limitsOf("route table"),
  interfaceRateLimit: limitsOf("network interface"),
  subnetsRateLimit: limitsOf("subnet"),
  virtualMachineRateLimit: limitsOf("virtual machine"),
  virtualMachineScaleSetRateLimit: limitsOf("scale set"),
  availabilitySetRateLimit: limitsOf("availability set"),
  privateLinkServiceRateLimit: limitsOf("private link service"),
  natGatewayRateLimit: limitsOf("NAT gateway"),
  serviceGatewayRateLimit: limitsOf("service gateway"),
};

export const cacheKeys = {
  disableAPICallCache: flag(false, "Ask Azure at every read."),
  vmCacheTTLInSeconds: seconds(60, "How long a single virtual machine is remembered."),
  vmssCacheTTLInSeconds: seconds(600, "How long the list of scale sets is remembered."),
  vmssVirtualMachinesCacheTTLInSeconds: seconds(
    600,
    "How long the instances and network interfaces of a scale set are remembered.",
  ),
  listVmssVirtualMachinesWithoutInstanceView: flag(
    false,
    "List instances without their power state and fault domain, which makes the list cheaper.",
  ),
  vmssFlexCacheTTLInSeconds: seconds(600, "How long the list of flexible scale sets is remembered."),
  vmssFlexVMCacheTTLInSeconds: seconds(600, "How long the machines of a flexible scale set are remembered."),
  nonVmssUniformNodesCacheTTLInSeconds: seconds(900, "How long the list of machines outside scale sets is remembered."),
  availabilitySetsCacheTTLInSeconds: seconds(600, "How long the list of availability sets is remembered."),
  loadBalancerCacheTTLInSeconds: seconds(120, "How long a load balancer is remembered."),
  nsgCacheTTLInSeconds: seconds(120, "How long the security group is remembered."),
  routeTableCacheTTLInSeconds: seconds(120, "How long the route table is remembered."),
  plsCacheTTLInSeconds: seconds(120, "How long a private link service is remembered."),
  publicIPCacheTTLInSeconds: seconds(120, "How long the public IP addresses of a resource group are remembered."),
  routeUpdateWaitingInSeconds: seconds(30, "Pause after the route table was written."),
};
