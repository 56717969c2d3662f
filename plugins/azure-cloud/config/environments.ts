/** Endpoints of one Azure cloud. */
export interface AzureEnvironment {
  /** Without a trailing slash. */
  readonly resourceManager: string;
  /** The login service, with a trailing slash. */
  readonly authority: string;
  /** The scope of tokens. */
  readonly scope: string;
  /** An Azure Stack, which has older API versions and no availability zones. */
  readonly stack: boolean;
}

const scopeOf = (audience: string): string => `${audience.replace(/\/$/u, "")}/.default`;
const trimmed = (url: string): string => url.replace(/\/+$/u, "");

/** The address of a login service, with a slash at the end. */
export const authorityOf = (url: string): string => `${trimmed(url)}/`;

/** Normalizes resolved endpoints. */
export const environmentOf = (parts: {
  readonly resourceManager: string;
  readonly authority: string;
  readonly audience: string;
  readonly stack: boolean;
}): AzureEnvironment => ({
  resourceManager: trimmed(parts.resourceManager),
  authority: authorityOf(parts.authority),
  scope: scopeOf(parts.audience),
  stack: parts.stack,
});

const builtIn = (resourceManager: string, authority: string): AzureEnvironment =>
  environmentOf({ resourceManager, authority, audience: resourceManager, stack: false });

const publicCloud = builtIn("https://management.azure.com", "https://login.microsoftonline.com");
const governmentCloud = builtIn("https://management.usgovcloudapi.net", "https://login.microsoftonline.us");

/** Endpoints of the known clouds, by lower-case name. */
const environments: ReadonlyMap<string, AzureEnvironment> = new Map([
  ["", publicCloud],
  ["azurecloud", publicCloud],
  ["azurepubliccloud", publicCloud],
  ["azurechinacloud", builtIn("https://management.chinacloudapi.cn", "https://login.chinacloudapi.cn")],
  ["azureusgovernment", governmentCloud],
  ["azureusgovernmentcloud", governmentCloud],
]);

const stackName = "azurestackcloud";
export const isStackName = (cloud: string): boolean => cloud.toLowerCase() === stackName;
export const isKnownCloud = (cloud: string): boolean => environments.has(cloud.toLowerCase()) || isStackName(cloud);

/** True for two names of one known cloud, such as AzurePublicCloud, and AzureCloud as its own endpoint calls it. */
export function areNamesOfOneCloud(left: string, right: string): boolean {
  const environment = environments.get(left.toLowerCase());
  return environment !== undefined && environment === environments.get(right.toLowerCase());
}

/** The cloud of that name; an unknown name stands for the public cloud, as upstream. */
export const environmentNamed = (cloud: string): AzureEnvironment =>
  environments.get(cloud.toLowerCase()) ?? publicCloud;

/** Login services that support instance discovery; any other is its own authority. */
export const isPublicAuthority = (authority: string): boolean =>
  [...environments.values()].some((environment) => environment.authority === authority);
