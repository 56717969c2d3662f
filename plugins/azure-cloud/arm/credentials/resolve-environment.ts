import { CodedError, isObject, messageOf } from "cloud-controller-host/sdk";

import type { AzureConfig } from "../../config/decode.ts";
import {
  areNamesOfOneCloud,
  authorityOf,
  type AzureEnvironment,
  environmentNamed,
  environmentOf,
  isStackName,
} from "../../config/environments.ts";
import { type JsonObject, objectAt, parseJson, stringAt, stringsAt } from "../../json.ts";
import { readRegularFile } from "../../regular-file.ts";
import { send } from "../transport/fetch-client.ts";

export interface Resolving {
  readonly ca: readonly string[] | undefined;
  readonly signal: AbortSignal;
}

/**
 * The endpoints of the configured cloud: from the table, from `resourceManagerEndpoint`'s metadata, or from upstream's
 * file for Azure Stack. Rejects with what to fix when they cannot be resolved.
 */
export async function resolveEnvironment(config: AzureConfig, resolving: Resolving): Promise<AzureEnvironment> {
  const stack = isStackName(config.cloud) && !config.disableAzureStackCloud;
  const named = { ...environmentNamed(config.cloud), stack };
  const found = config.resourceManagerEndpoint === "" ? named : await discover(config, stack, resolving);
  if (!isStackName(config.cloud) || config.environmentFile === "") return found;
  return fromFile(config.environmentFile, found);
}

const metadataVersion = "2019-05-01";

async function discover(config: AzureConfig, stack: boolean, resolving: Resolving): Promise<AzureEnvironment> {
  const endpoint = config.resourceManagerEndpoint.replace(/\/+$/u, "");
  const clouds = await readMetadata(`${endpoint}/metadata/endpoints?api-version=${metadataVersion}`, resolving);
  const cloud = config.cloud === "" ? clouds[0] : cloudNamed(config.cloud, clouds);
  const authentication = objectAt(cloud, "authentication");
  const authority = stringAt(authentication, "loginEndpoint");
  const [audience] = stringsAt(authentication, "audiences");
  if (cloud === undefined || authority === undefined || audience === undefined) {
    const names = clouds.map((item) => stringAt(item, "name") ?? "(without a name)").join(", ") || "no cloud";
    throw new CodedError(
      "UnknownCloud",
      `cloud "${config.cloud}" is not described at resourceManagerEndpoint ${endpoint}, which knows ${names}`,
    );
  }
  return environmentOf({ resourceManager: stringAt(cloud, "resourceManager") || endpoint, authority, audience, stack });
}

function cloudNamed(wanted: string, clouds: readonly JsonObject[]): JsonObject | undefined {
  const nameOf = (item: JsonObject): string => stringAt(item, "name") ?? "";
  return (
    clouds.find((item) => nameOf(item).toLowerCase() === wanted.toLowerCase()) ??
    clouds.find((item) => nameOf(item) !== "" && areNamesOfOneCloud(nameOf(item), wanted))
  );
}

async function readMetadata(url: string, resolving: Resolving): Promise<readonly JsonObject[]> {
  let hint = "check the address and resourceManagerCAFile";
  try {
    const reply = await send({ url, method: "GET", headers: {}, ...resolving });
    if (reply.status === 429 || reply.status >= 500) hint = "the service is throttled or down, so try again later";
    if (reply.status !== 200) throw new CodedError("MetadataUnavailable", `it answered ${reply.status}`);
    const items = parseJson(reply.text);
    return Array.isArray(items) ? items.filter(isObject) : [];
  } catch (error) {
    throw new CodedError(
      "MetadataUnavailable",
      `resourceManagerEndpoint: cannot read ${url}: ${messageOf(error)}; ${hint}`,
      { cause: error },
    );
  }
}

/** Upstream's file of Azure Stack endpoints, applied only if it names both the endpoint and the audience. */
async function fromFile(path: string, fallback: AzureEnvironment): Promise<AzureEnvironment> {
  let text: string;
  try {
    text = (await readRegularFile(path)).toString();
  } catch (error) {
    throw new CodedError("FileUnreadable", `AZURE_ENVIRONMENT_FILEPATH: cannot read ${path}`, { cause: error });
  }
  const parsed = parseJson(text);
  if (!isObject(parsed)) throw new CodedError("FileUnreadable", `AZURE_ENVIRONMENT_FILEPATH: ${path} is not JSON`);
  const authority = authorityOf(stringAt(parsed, "activeDirectoryEndpoint") || fallback.authority);
  const resourceManager = stringAt(parsed, "resourceManagerEndpoint");
  const audience = stringAt(parsed, "tokenAudience");
  if (!resourceManager || !audience) return { ...fallback, authority };
  return environmentOf({ resourceManager, authority, audience, stack: fallback.stack });
}
