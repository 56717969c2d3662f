import { describe, expect, test } from "bun:test";

import * as fc from "fast-check";

import { type AzureConfig, decodeConfig } from "../../../../plugins/azure-cloud/config/decode.ts";
import { configSchema } from "../../../../plugins/azure-cloud/config/schema.ts";

const enough = {
  tenantId: "t",
  subscriptionId: "s",
  resourceGroup: "rg",
  location: "eastus",
  aadClientId: "c",
  aadClientSecret: "sesame",
};
type Document = Readonly<Record<string, unknown>>;

const read = (document: Document, environment: Readonly<Record<string, string>> = {}) =>
  decodeConfig({ ...enough, ...document }, environment);

function valueOf(document: Document, environment: Readonly<Record<string, string>> = {}): AzureConfig {
  const decoded = read(document, environment);
  if (!decoded.ok) throw new Error(decoded.problems.join("; "));
  return decoded.value;
}

const problemsOf = (document: Document, environment: Readonly<Record<string, string>> = {}): readonly string[] => {
  const decoded = read(document, environment);
  return decoded.ok ? [] : decoded.problems;
};

/** Source: upstream's `initializeCloudFromConfig`, `setCloudProviderBackoffDefaults` and constructors of caches. */
const defaultedByZero = [
  "availabilitySetsCacheTTLInSeconds",
  "cloudProviderBackoffDuration",
  "cloudProviderBackoffExponent",
  "cloudProviderBackoffJitter",
  "cloudProviderBackoffRetries",
  "clusterServiceSharedLoadBalancerHealthProbePort",
  "loadBalancerBackendPoolUpdateIntervalInSeconds",
  "loadBalancerCacheTTLInSeconds",
  "maximumLoadBalancerRuleCount",
  "nonVmssUniformNodesCacheTTLInSeconds",
  "nsgCacheTTLInSeconds",
  "plsCacheTTLInSeconds",
  "publicIPCacheTTLInSeconds",
  "routeTableCacheTTLInSeconds",
  "vmCacheTTLInSeconds",
  "vmssCacheTTLInSeconds",
  "vmssFlexVMCacheTTLInSeconds",
  "vmssVirtualMachinesCacheTTLInSeconds",
];

const warningsOf = (document: Document): readonly string[] => {
  const decoded = read(document);
  return decoded.ok ? decoded.warnings : ["it was refused"];
};

describe("decoding the cloud config", () => {
  test("matches keys in any case", () => {
    const value = valueOf({ VNETNAME: "v", SubnetName: "s", usemanagedidentityextension: false });
    expect(value).toMatchObject({ vnetName: "v", subnetName: "s", useManagedIdentityExtension: false });
  });

  for (const key of [
    "resourceGroup",
    "vnetResourceGroup",
    "securityGroupResourceGroup",
    "routeTableResourceGroup",
    "loadBalancerResourceGroup",
    "privateLinkServiceResourceGroup",
    "subscriptionId",
    "networkResourceSubscriptionID",
    "vnetName",
    "subnetName",
    "securityGroupName",
    "routeTableName",
    "loadBalancerName",
  ])
    test(`refuses a ${key} that would lead a request to another path`, () => {
      expect(problemsOf({ [key]: "../a" })).toEqual([`${key}: "../a" is not a valid name in Azure`]);
      expect(problemsOf({ [key]: "a-1_b" })).toEqual([]);
    });

  test("matches keys in lists and mappings in any case", () => {
    const item = { NAME: "a", PrimaryVMset: "p", nodeselector: { MATCHLABELS: { Zone: "1" } } };
    const value = valueOf({
      loadBalancerBackendPoolConfigurationType: "nodeIP",
      multipleStandardLoadBalancerConfigurations: [item],
    });
    expect(value.multipleStandardLoadBalancerConfigurations?.[0]).toMatchObject({
      name: "a",
      primaryVMSet: "p",
      allowServicePlacement: true,
      nodeSelector: { matchLabels: { Zone: "1" } },
    });
  });

  test("ignores unknown keys with one warning that suggests the key that was meant", () => {
    expect(warningsOf({ vnetNam: "v", cloudProviderBackoffMode: "v2", zebra: 1 })).toEqual([
      "unknown keys are ignored: vnetNam (did you mean vnetName?), cloudProviderBackoffMode, zebra",
    ]);
  });

  test("names the position of unknown keys in a list", () => {
    const configuration = { name: "a", primaryVMSet: "p", nodeSelektor: {} };
    expect(
      warningsOf({
        loadBalancerBackendPoolConfigurationType: "nodeIP",
        multipleStandardLoadBalancerConfigurations: [configuration],
      }),
    ).toEqual([
      "unknown keys are ignored: multipleStandardLoadBalancerConfigurations[0].nodeSelektor (did you mean nodeSelector?)",
    ]);
  });

  test("accepts a YAML scalar for a string", () => {
    expect(valueOf({ subscriptionId: 42, tags: true, tagsMap: { a: 1, b: null } })).toMatchObject({
      subscriptionId: "42",
      tags: "true",
      tagsMap: { a: "1", b: "" },
    });
  });

  test("takes null for the default", () => {
    expect(valueOf({ vmType: null, loadBalancerSku: null, vmCacheTTLInSeconds: null })).toMatchObject({
      vmType: "vmss",
      loadBalancerSku: "standard",
      vmCacheTTLInSeconds: 60,
    });
  });

  test("takes 0 and empty text for the default of a key that needs a value, as upstream", () => {
    const zero = Object.fromEntries(defaultedByZero.map((key) => [key, 0]));
    const standard = valueOf({});
    expect(valueOf({ ...zero, clusterServiceSharedLoadBalancerHealthProbePath: "" })).toEqual(standard);
    expect(valueOf({ removalGuardMaxRemovals: 0, removalGuardWindowInSeconds: 0 })).toEqual({
      ...standard,
      removalGuardMaxRemovals: 0,
      removalGuardWindowInSeconds: 0,
    });
    expect(problemsOf({ vmCacheTTLInSeconds: "" })).toEqual([
      'vmCacheTTLInSeconds must be an integer without quotes, got ""',
    ]);
  });

  test("applies the last of two keys that differ in case, with a warning", () => {
    expect(warningsOf({ vnetName: "a", VnetName: "b" })).toEqual([
      "vnetName is set more than once; the last value applies",
    ]);
  });

  test("ignores a case-sensitive word in another case, with a warning", () => {
    const document = { preConfiguredBackendPoolLoadBalancerTypes: "ALL" };
    expect(warningsOf(document)).toEqual([
      'preConfiguredBackendPoolLoadBalancerTypes: "ALL" has no effect: the value is case-sensitive (did you mean all?)',
    ]);
    expect(valueOf(document).preConfiguredBackendPoolLoadBalancerTypes).toBe("");
    expect(valueOf({ loadBalancerSku: "Basic" }).loadBalancerSku).toBe("basic");
  });

  test("accepts loadBalancerSku basic with a warning that Azure has retired it, and how to migrate", () => {
    expect(warningsOf({ loadBalancerSku: "Basic" })).toEqual([
      expect.stringMatching(
        /^loadBalancerSku basic: Azure retired Basic load balancers on 30 September 2025; set loadBalancerSku standard/u,
      ),
    ]);
    expect(warningsOf({ loadBalancerSku: "standard" })).toEqual([]);
  });

  test.each([
    ["cloudProviderRateLimit", "requests are paced by the limits that Azure reports"],
    [
      "enableMigrateToIPBasedBackendPoolAPI",
      "the interfaces leave a pool before the addresses join it, and its Services have no backends in between",
    ],
  ])("accepts %s with a warning that it has no effect, and why", (key, why) => {
    expect(warningsOf({ [key]: true })).toEqual([`${key} has no effect: ${why}`]);
    expect(warningsOf({ [key]: false })).toEqual([]);
  });

  test("warns that workload identity has no token of the tenant of the network resources", () => {
    const file = { aadFederatedTokenFile: "/token", aadClientId: "client", tenantId: "home" };
    const federated = { ...file, useFederatedWorkloadIdentityExtension: true, useManagedIdentityExtension: false };
    expect(warningsOf({ ...federated, networkResourceTenantID: "other" })).toEqual([
      "networkResourceTenantID has no effect with workload identity: requests for network resources carry a token of tenantId; use a service principal",
    ]);
    for (const networkResourceTenantID of ["", "HOME"])
      expect(warningsOf({ ...federated, networkResourceTenantID })).toEqual([]);
  });

  test("lower-cases the resource group", () => {
    expect(valueOf({ resourceGroup: "MC_Group" }).resourceGroup).toBe("mc_group");
  });

  test("matches words in any case, and takes an empty one for the default", () => {
    expect(valueOf({ vmType: "VMSS", loadBalancerSku: "Standard", cloudConfigType: "" })).toMatchObject({
      vmType: "vmss",
      loadBalancerSku: "standard",
      cloudConfigType: "merge",
    });
  });

  describe.each(Object.entries(configSchema.properties))("key %s", (key, schema) => {
    test("is found in any case", () => {
      const value: unknown = "default" in schema ? schema.default : undefined;
      const decoded = read({ [key.toUpperCase()]: value ?? null });
      expect((decoded.ok ? decoded.warnings : decoded.problems).join()).not.toContain("unknown key");
    });

    test("refuses a value of another type with a problem that names it", () => {
      const wrong = "items" in schema ? { a: 1 } : [1];
      const [problem = ""] = problemsOf({ [key.toLowerCase()]: wrong });
      expect(problem).toStartWith(`${key} must be `);
    });
  });

  test("has a description for every key, and a default for all but the optional objects", () => {
    for (const [key, schema] of Object.entries(configSchema.properties)) {
      expect({ key, described: typeof schema.description }).toEqual({ key, described: "string" });
      const composed = "properties" in schema || "items" in schema || "patternProperties" in schema;
      expect({ key, hasDefault: "default" in schema || composed }).toEqual({ key, hasDefault: true });
    }
  });

  test("has upstream's defaults", () => {
    expect(valueOf({})).toMatchObject({
      vmType: "vmss",
      loadBalancerSku: "standard",
      maximumLoadBalancerRuleCount: 250,
      excludeMasterFromStandardLB: true,
      vmssCacheTTLInSeconds: 600,
      vmssVirtualMachinesCacheTTLInSeconds: 600,
      nonVmssUniformNodesCacheTTLInSeconds: 900,
      loadBalancerCacheTTLInSeconds: 120,
      routeUpdateIntervalInSeconds: 30,
      clusterServiceLoadBalancerHealthProbeMode: "servicenodeport",
      clusterServiceSharedLoadBalancerHealthProbePort: 10256,
      clusterServiceSharedLoadBalancerHealthProbePath: "/healthz",
      cloudProviderBackoffRetries: 6,
      cloudProviderBackoffExponent: 1.5,
      nodeInstanceNotFoundGracePeriodInSeconds: 0,
    });
  });
});

describe("problems", () => {
  test("are all reported at once, each with its key", () => {
    expect(
      problemsOf({
        subscriptionId: "",
        useManagedIdentityExtension: "true",
        vmCacheTTLInSeconds: "60",
        plsCacheTTLInSeconds: -1,
        cloudConfigType: "vault",
        tagsMap: ["a"],
        vmType: "vm",
      }),
    ).toEqual([
      'useManagedIdentityExtension must be true or false without quotes, got "true"',
      'vmCacheTTLInSeconds must be an integer without quotes, got "60"',
      "plsCacheTTLInSeconds must be at least 0, got -1",
      'cloudConfigType must be one of merge, file, secret, got "vault"',
      "tagsMap must be a mapping of keys to values, got a list",
      'vmType must be one of vmss, standard, vmssflex, got "vm"',
      "subscriptionId is required",
    ]);
  });

  test("name a key with a refused value once, and nothing that would follow from its default", () => {
    const list = "multipleStandardLoadBalancerConfigurations";
    const quoted = 'useManagedIdentityExtension must be true or false without quotes, got "true"';
    expect(problemsOf({ aadClientId: "", aadClientSecret: "", useManagedIdentityExtension: "true" })).toEqual([quoted]);
    expect(problemsOf({ location: ["l"], resourceGroup: "any location" })).toEqual([
      "location must be a string, got a list",
      'resourceGroup: "any location" is not a valid name in Azure',
    ]);
    expect(
      problemsOf({
        subscriptionId: ["s"],
        location: "",
        loadBalancerBackendPoolConfigurationType: "nic",
        [list]: [{ name: ["a"], primaryVMSet: "p" }, { primaryVMSet: "q" }],
      }),
    ).toEqual([
      "subscriptionId must be a string, got a list",
      'loadBalancerBackendPoolConfigurationType must be one of nodeIPConfiguration, nodeIP, podIP, got "nic"',
      `${list}[0].name must be a string, got a list`,
      "location is required",
      `${list}[1].name is required`,
    ]);
  });

  const rows: readonly (readonly [string, Document, string])[] = [
    [
      "disableAvailabilitySetNodes with vmType standard",
      { disableAvailabilitySetNodes: true, vmType: "standard" },
      "disableAvailabilitySetNodes requires vmType vmss, got standard",
    ],
    [
      "disableOutboundSNAT with a basic load balancer",
      { disableOutboundSNAT: true, loadBalancerSku: "basic" },
      "disableOutboundSNAT requires loadBalancerSku standard, got basic",
    ],
    [
      "an unknown pool type",
      { loadBalancerBackendPoolConfigurationType: "nic" },
      'loadBalancerBackendPoolConfigurationType must be one of nodeIPConfiguration, nodeIP, podIP, got "nic"',
    ],
    [
      "an unknown probe mode",
      { clusterServiceLoadBalancerHealthProbeMode: "none" },
      'clusterServiceLoadBalancerHealthProbeMode must be one of servicenodeport, shared, got "none"',
    ],
    [
      "half of a service gateway",
      { serviceGatewayEnabled: true },
      "service gateway mode also requires loadBalancerSku service and " +
        "loadBalancerBackendPoolConfigurationType podIP",
    ],
    [
      "several load balancers with pools of interfaces",
      { multipleStandardLoadBalancerConfigurations: [{ name: "a", primaryVMSet: "p" }] },
      "multipleStandardLoadBalancerConfigurations requires loadBalancerBackendPoolConfigurationType nodeIP, " +
        "got nodeIPConfiguration",
    ],
    [
      "a managed identity of another tenant than the network's",
      { useManagedIdentityExtension: true, networkResourceTenantID: "other" },
      "networkResourceTenantID cannot be used with a managed identity: reading a token of the network tenant " +
        "from a key vault (auxiliaryTokenProvider) is not supported; use a service principal",
    ],
  ];
  for (const [name, document, problem] of rows)
    test(`${name} is refused`, () => expect(problemsOf(document)).toEqual([problem]));

  test("refuses load balancers with the same name or the same primary set", () => {
    const configurations = [{ name: "a", primaryVMSet: "p" }, { name: "A", primaryVMSet: "P" }, { name: "b" }];
    const list = "multipleStandardLoadBalancerConfigurations";
    expect(problemsOf({ [list]: configurations, loadBalancerBackendPoolConfigurationType: "nodeIP" })).toEqual([
      `${list}[1].name "A" is set more than once`,
      `${list}[1].primaryVMSet "P" is set more than once`,
      `${list}[2].primaryVMSet is required`,
    ]);
  });

  test("never show a secret, whatever its value", () => {
    const secret = fc.oneof(
      fc.object(),
      fc.array(fc.string()),
      fc.constant(["pass-phrase"]),
      fc.constant({ a: "pass" }),
    );
    fc.assert(
      fc.property(secret, fc.constantFrom("aadClientSecret", "AADCLIENTCERTPASSWORD"), (value, key) => {
        const problems = problemsOf({ [key]: value });
        return problems.length > 0 && !problems.join(" ").includes("pass");
      }),
      { seed: 20260815, numRuns: 100 },
    );
  });

  test("are reported for any document, and the decoder never throws", () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.constantFrom(...Object.keys(configSchema.properties), "x"), fc.anything()),
        (document) => {
          const decoded = decodeConfig(document, {});
          return decoded.ok || decoded.problems.length > 0;
        },
      ),
      { seed: 20260816, numRuns: 300 },
    );
  });
});

describe("the identity", () => {
  test("is the first configured one in upstream's order", () => {
    const all = {
      useFederatedWorkloadIdentityExtension: true,
      aadFederatedTokenFile: "/token",
      useManagedIdentityExtension: true,
      aadClientCertPath: "/cert.pem",
    };
    expect(valueOf(all).identity.kind).toBe("workload-identity");
    expect(valueOf({ ...all, useFederatedWorkloadIdentityExtension: false }).identity.kind).toBe("managed-identity");
    expect(valueOf({ aadClientCertPath: "/cert.pem" }).identity.kind).toBe("client-secret");
    expect(valueOf({ aadClientCertPath: "/cert.pem", aadClientSecret: "" }).identity.kind).toBe("client-certificate");
  });

  test("takes userAssignedIdentityID for a resource id when it looks like one, otherwise for a client id", () => {
    const identity = (id: string): unknown =>
      valueOf({ useManagedIdentityExtension: true, userAssignedIdentityID: id }).identity;
    expect(identity("")).toEqual({ kind: "managed-identity" });
    expect(identity("abc")).toEqual({ kind: "managed-identity", clientId: "abc" });
    expect(identity("/subscriptions/s/x")).toEqual({ kind: "managed-identity", resourceId: "/subscriptions/s/x" });
  });

  test("is overridden by environment variables, and a token file enables workload identity", () => {
    const environment = {
      AZURE_TENANT_ID: "env-tenant",
      AZURE_CLIENT_ID: "env-client",
      AZURE_FEDERATED_TOKEN_FILE: "/var/run/token",
    };
    expect(valueOf({ useManagedIdentityExtension: true }, environment).identity).toEqual({
      kind: "workload-identity",
      tenantId: "env-tenant",
      clientId: "env-client",
      tokenFile: "/var/run/token",
    });
    expect(valueOf({}, { AZURE_CLIENT_SECRET: "other" }).identity).toMatchObject({ secret: "other" });
  });

  test("lists what can be set when none is configured", () => {
    expect(problemsOf({ aadClientId: "", aadClientSecret: "" })).toEqual([
      "no credentials for Azure: set aadClientId with aadClientSecret, or useManagedIdentityExtension, or " +
        "useFederatedWorkloadIdentityExtension (AZURE_FEDERATED_TOKEN_FILE)",
    ]);
    expect(problemsOf({ aadClientSecret: "" })).toEqual([
      "no credentials for Azure: set aadClientSecret (or AZURE_CLIENT_SECRET) or aadClientCertPath beside aadClientId",
    ]);
    expect(problemsOf({ tenantId: "" })).toEqual(["tenantId is required for a service principal"]);
  });
});
