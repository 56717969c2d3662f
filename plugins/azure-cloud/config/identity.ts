import type { ConfigKeys } from "./schema.ts";

/** The credential of this process. */
export type Identity =
  | {
      readonly kind: "workload-identity";
      readonly tenantId: string;
      readonly clientId: string;
      readonly tokenFile: string;
    }
  | { readonly kind: "managed-identity"; readonly clientId?: string; readonly resourceId?: string }
  | { readonly kind: "client-secret"; readonly tenantId: string; readonly clientId: string; readonly secret: string }
  | {
      readonly kind: "client-certificate";
      readonly tenantId: string;
      readonly clientId: string;
      readonly file: string;
      readonly password: string;
    };

const federatedAssertion = "workload identity (useFederatedWorkloadIdentityExtension)";

const missingKeys = (method: string, wanted: Readonly<Record<string, string>>): readonly string[] =>
  Object.entries(wanted).flatMap(([key, value]) => (value === "" ? [`${key} is required for ${method}`] : []));

/** Selects the first configured authentication method in upstream's order, or reports the keys it needs. */
export function chooseIdentity(keys: ConfigKeys): {
  readonly identity?: Identity;
  readonly problems: readonly string[];
} {
  const { tenantId, aadClientId: clientId } = keys;
  if (keys.useFederatedWorkloadIdentityExtension) {
    const tokenFile = keys.aadFederatedTokenFile;
    const problems = missingKeys(federatedAssertion, {
      tenantId,
      aadClientId: clientId,
      aadFederatedTokenFile: tokenFile,
    });
    return { identity: { kind: "workload-identity", tenantId, clientId, tokenFile }, problems };
  }
  if (keys.useManagedIdentityExtension) return { identity: managedIdentity(keys), problems: managedProblems(keys) };
  if (clientId !== "" && keys.aadClientSecret !== "") {
    const identity = { kind: "client-secret", tenantId, clientId, secret: keys.aadClientSecret } as const;
    return { identity, problems: missingKeys("a service principal", { tenantId }) };
  }
  if (clientId !== "" && keys.aadClientCertPath !== "") {
    const { aadClientCertPath: file, aadClientCertPassword: password } = keys;
    const identity = { kind: "client-certificate", tenantId, clientId, file, password } as const;
    return { identity, problems: missingKeys("a service principal", { tenantId }) };
  }
  return { problems: [noIdentity(keys)] };
}

function managedIdentity({ userAssignedIdentityID: id }: ConfigKeys): Identity {
  if (id === "") return { kind: "managed-identity" };
  const isResource = id.toUpperCase().includes("/SUBSCRIPTIONS/");
  return { kind: "managed-identity", ...(isResource ? { resourceId: id } : { clientId: id }) };
}

/** True when the network resources belong to another tenant than the VMs. */
export const isCrossTenant = (keys: ConfigKeys): boolean =>
  keys.networkResourceTenantID !== "" && keys.networkResourceTenantID.toLowerCase() !== keys.tenantId.toLowerCase();

const managedProblems = (keys: ConfigKeys): readonly string[] =>
  isCrossTenant(keys)
    ? [
        "networkResourceTenantID cannot be used with a managed identity: reading a token of the network tenant " +
          "from a key vault (auxiliaryTokenProvider) is not supported; use a service principal",
      ]
    : [];

function noIdentity(keys: ConfigKeys): string {
  if (keys.aadMSIDataPlaneIdentityPath !== "")
    return (
      "aadMSIDataPlaneIdentityPath: credentials from the MSI data plane are not supported; use workload identity, " +
      "a managed identity or a service principal"
    );
  const start = "no credentials for Azure: set ";
  if (keys.aadClientId !== "")
    return `${start}aadClientSecret (or AZURE_CLIENT_SECRET) or aadClientCertPath beside aadClientId`;
  return (
    `${start}aadClientId with aadClientSecret, or useManagedIdentityExtension, or ` +
    "useFederatedWorkloadIdentityExtension (AZURE_FEDERATED_TOKEN_FILE)"
  );
}
