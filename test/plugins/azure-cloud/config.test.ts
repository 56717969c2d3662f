import { describe, expect, test } from "bun:test";

import * as fc from "fast-check";

import { type AzureConfig, decodeConfig } from "../../../plugins/azure-cloud/config/decode.ts";
import { configSchema } from "../../../plugins/azure-cloud/config/schema.ts";

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

const warningsOf = (document: Document): readonly string[] => {
  const decoded = read(document);
  return decoded.ok ? decoded.warnings : ["it was refused"];
};

describe("reading keys", () => {
  test("keys match whatever their case", () => {
    const value = valueOf({ VNETNAME: "v", SubnetName: "s", usemanagedidentityextension: false });
    expect(value).toMatchObject({ vnetName: "v", subnetName: "s", useManagedIdentityExtension: false });
  });

  test("keys inside of lists and mappings match whatever their case as well", () => {
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

  test("unknown keys are ignored with one warning that names them and what was probably meant", () => {
    expect(warningsOf({ vnetNam: "v", cloudProviderBackoffMode: "v2", zebra: 1 })).toEqual([
      "unknown keys are ignored: vnetNam (did you mean vnetName?), cloudProviderBackoffMode, zebra",
    ]);
  });

  test("unknown keys inside of a list are named with their place", () => {
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

  test("a YAML scalar is taken where text is wanted", () => {
    expect(valueOf({ subscriptionId: 42, tags: true, tagsMap: { a: 1, b: null } })).toMatchObject({
      subscriptionId: "42",
      tags: "true",
      tagsMap: { a: "1", b: "" },
    });
  });

  test("null is as good as absent", () => {
    expect(valueOf({ vmType: null, loadBalancerSku: null, vmCacheTTLInSeconds: null })).toMatchObject({
      vmType: "vmss",
      loadBalancerSku: "standard",
      vmCacheTTLInSeconds: 60,
    });
  });

  test("a key that is given twice in different case counts once, with a warning", () => {
    expect(warningsOf({ vnetName: "a", VnetName: "b" })).toEqual([
      "vnetName is given more than once; the last one counts",
    ]);
  });

  test("the resource group is in lower case", () => {
    expect(valueOf({ resourceGroup: "MC_Group" }).resourceGroup).toBe("mc_group");
  });

  test("words match whatever their case, and an empty one is the default", () => {
    expect(valueOf({ vmType: "VMSS", loadBalancerSku: "Standard", cloudConfigType: "" })).toMatchObject({
      vmType: "vmss",
      loadBalancerSku: "standard",
      cloudConfigType: "merge",
    });
  });

  test("every key has a description and all but the optional objects a default", () => {
    for (const [key, schema] of Object.entries(configSchema.properties)) {
      expect({ key, described: typeof schema.description }).toEqual({ key, described: "string" });
      const composed = "properties" in schema || "items" in schema || "patternProperties" in schema;
      expect({ key, hasDefault: "default" in schema || composed }).toEqual({ key, hasDefault: true });
    }
  });

  test("defaults are upstream's", () => {
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
  test("are all told at once, each with its key", () => {
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
      'useManagedIdentityExtension must be true or false, without quotes, got "true"',
      'vmCacheTTLInSeconds must be a whole number, without quotes, got "60"',
      "plsCacheTTLInSeconds must be at least 0, got -1",
      'cloudConfigType must be one of merge, file, secret, got "vault"',
      "tagsMap must be a mapping of keys to values, got a list",
      'vmType must be one of vmss, standard, vmssflex, got "vm"',
      "subscriptionId is required",
    ]);
  });

  const rows: readonly (readonly [string, Document, string])[] = [
    [
      "disableAvailabilitySetNodes with other machines than scale sets",
      { disableAvailabilitySetNodes: true, vmType: "standard" },
      "disableAvailabilitySetNodes needs vmType vmss, got standard",
    ],
    [
      "disableOutboundSNAT with a basic load balancer",
      { disableOutboundSNAT: true, loadBalancerSku: "basic" },
      "disableOutboundSNAT needs loadBalancerSku standard, got basic",
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
      "service gateway mode needs loadBalancerSku service and " +
        "loadBalancerBackendPoolConfigurationType podIP as well",
    ],
    [
      "several load balancers with pools of interfaces",
      { multipleStandardLoadBalancerConfigurations: [{ name: "a", primaryVMSet: "p" }] },
      "multipleStandardLoadBalancerConfigurations needs loadBalancerBackendPoolConfigurationType nodeIP, " +
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

  test("load balancers of one name or one primary set are refused", () => {
    const configurations = [{ name: "a", primaryVMSet: "p" }, { name: "A", primaryVMSet: "P" }, { name: "b" }];
    const list = "multipleStandardLoadBalancerConfigurations";
    expect(problemsOf({ [list]: configurations, loadBalancerBackendPoolConfigurationType: "nodeIP" })).toEqual([
      `${list}[1].name "A" is given more than once`,
      `${list}[1].primaryVMSet "P" is given more than once`,
      `${list}[2].primaryVMSet is required`,
    ]);
  });

  test("never show a secret, however wrong its value is", () => {
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

  test("no document, however odd, makes the reader fail", () => {
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
  test("is the first that the config asks for, in upstream's order", () => {
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

  test("a user-assigned identity is a resource id when it looks like one, else a client id", () => {
    const identity = (id: string): unknown =>
      valueOf({ useManagedIdentityExtension: true, userAssignedIdentityID: id }).identity;
    expect(identity("")).toEqual({ kind: "managed-identity" });
    expect(identity("abc")).toEqual({ kind: "managed-identity", clientId: "abc" });
    expect(identity("/subscriptions/s/x")).toEqual({ kind: "managed-identity", resourceId: "/subscriptions/s/x" });
  });

  test("variables of the environment override the config, and a token file switches workload identity on", () => {
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

  test("without any identity, what can be set is told", () => {
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
