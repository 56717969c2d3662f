import { Type } from "cloud-controller-host/sdk";

import { flag, number, orDefault, seconds, secret, text, whole } from "./schema-types.ts";

/** The cloud, its endpoints, its subscriptions, and the backoff of lookups. */
export const armKeys = {
  cloud: text(
    "Name of the Azure cloud: AzurePublicCloud (the default), AzureChinaCloud, AzureUSGovernmentCloud or AzureStackCloud.",
  ),
  resourceManagerEndpoint: text(
    "URL of Azure Resource Manager. When set, the other endpoints are read from its /metadata/endpoints.",
  ),
  resourceManagerCAFile: text(
    "PEM file with further certificate authorities to trust for Resource Manager and the login service.",
  ),
  disableAzureStackCloud: flag(false, "With cloud AzureStackCloud, use its endpoints but behave as in public Azure."),
  userAgent: text(
    "User-Agent header of every request to Azure; default kubernetes-cloudprovider/cloud-controller-host.",
  ),
  tenantId: text("Tenant of the identity. AZURE_TENANT_ID overrides it."),
  subscriptionId: text("Subscription of the cluster's VMs."),
  networkResourceTenantID: text("Tenant of the network resources, if different."),
  networkResourceSubscriptionID: text("Subscription of the network resources, if different."),
  cloudProviderBackoff: flag(false, "Retry failed lookups of addresses before reporting an error."),
  cloudProviderBackoffRetries: whole(6, "Attempts per lookup.", orDefault),
  cloudProviderBackoffDuration: seconds(5, "First pause between two attempts of a lookup.", orDefault),
  cloudProviderBackoffExponent: number(1.5, "Factor by which each further pause grows.", orDefault),
  cloudProviderBackoffJitter: number(1, "Random part that is added to a pause, as a fraction of it.", orDefault),
  enableMinimumRetryAfter: flag(
    false,
    "Ignore the Retry-After of a successful response when it is shorter than 5 seconds.",
  ),
};

export const authKeys = {
  aadClientId: text("Client id of the service principal or workload identity. AZURE_CLIENT_ID overrides it."),
  aadClientSecret: secret("Client secret of the service principal. AZURE_CLIENT_SECRET overrides it."),
  aadClientCertPath: text(
    "PEM file with the service principal's certificate and private key. PFX is not supported: convert it.",
  ),
  aadClientCertPassword: secret("Password of that private key."),
  useManagedIdentityExtension: flag(false, "Authenticate with the VM's managed identity."),
  userAssignedIdentityID: text(
    "Client id or resource id of a user-assigned identity. Empty: the system-assigned identity.",
  ),
  useFederatedWorkloadIdentityExtension: flag(false, "Authenticate with a projected service account token."),
  aadFederatedTokenFile: text(
    "File with that token. AZURE_FEDERATED_TOKEN_FILE overrides it and enables workload identity.",
  ),
  auxiliaryTokenProvider: Type.Optional(
    Type.Object(
      {
        subscriptionID: text("Subscription of the key vault."),
        resourceGroup: text("Resource group of the key vault."),
        vaultName: text("Name of the key vault."),
        secretName: text("Name of the secret that holds a token of the network tenant."),
      },
      {
        description:
          "Key vault with a token of the network tenant, for a managed identity of another tenant. Not supported.",
      },
    ),
  ),
  aadMSIDataPlaneIdentityPath: text("File with credentials from the MSI data plane. Not supported."),
  identitySystem: text("azure_ad or adfs. Accepted without effect."),
};

const limits = {
  cloudProviderRateLimit: flag(false, "Accepted without effect: requests are paced by the limits that Azure reports."),
  cloudProviderRateLimitQPS: number(1, "Accepted without effect."),
  cloudProviderRateLimitBucket: whole(5, "Accepted without effect."),
  cloudProviderRateLimitQPSWrite: number(1, "Accepted without effect."),
  cloudProviderRateLimitBucketWrite: whole(5, "Accepted without effect."),
};

const limitsOf = (client: string) =>
  Type.Optional(Type.Object(limits, { description: `Limits of the ${client} client. Accepted without effect.` }));

/** Accepted so that existing configs keep working; they have no effect upstream either. */
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
  disableAPICallCache: flag(false, "Read from Azure at every call."),
  vmCacheTTLInSeconds: seconds(60, "TTL of the power state of a single VM, and of the absence of a VM.", orDefault),
  vmssCacheTTLInSeconds: seconds(600, "TTL of the list of scale sets.", orDefault),
  vmssVirtualMachinesCacheTTLInSeconds: seconds(
    600,
    "TTL of the instances and network interfaces of a scale set, and of the absence of an instance.",
    orDefault,
  ),
  listVmssVirtualMachinesWithoutInstanceView: flag(
    false,
    "List instances without power state and fault domain, which is cheaper.",
  ),
  vmssFlexCacheTTLInSeconds: seconds(
    600,
    "Accepted without effect: flexible scale sets are in the list of scale sets.",
  ),
  vmssFlexVMCacheTTLInSeconds: seconds(
    600,
    "TTL of power states and network interfaces of VMs in flexible scale sets.",
    orDefault,
  ),
  nonVmssUniformNodesCacheTTLInSeconds: seconds(900, "TTL of the list of VMs outside uniform scale sets.", orDefault),
  availabilitySetsCacheTTLInSeconds: seconds(600, "TTL of the list of availability sets.", orDefault),
  loadBalancerCacheTTLInSeconds: seconds(120, "TTL of a load balancer.", orDefault),
  nsgCacheTTLInSeconds: seconds(120, "TTL of the network security group.", orDefault),
  routeTableCacheTTLInSeconds: seconds(120, "TTL of the route table.", orDefault),
  plsCacheTTLInSeconds: seconds(120, "TTL of a private link service.", orDefault),
  publicIPCacheTTLInSeconds: seconds(120, "TTL of the public IP addresses of a resource group.", orDefault),
  routeUpdateWaitingInSeconds: seconds(
    30,
    "Accepted without effect: a write of the route table is awaited until it is complete.",
  ),
};
