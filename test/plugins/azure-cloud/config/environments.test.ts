import { afterEach, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { resolveEnvironment } from "../../../../plugins/azure-cloud/arm/credentials/resolve-environment.ts";
import { decodeConfig } from "../../../../plugins/azure-cloud/config/decode.ts";
import {
  type AzureEnvironment,
  environmentNamed,
  environmentOf,
} from "../../../../plugins/azure-cloud/config/environments.ts";
import { errorOf } from "../../../kit/rejection.ts";

let opened = new AsyncDisposableStack();
afterEach(async () => {
  const closing = opened;
  opened = new AsyncDisposableStack();
  await closing.disposeAsync();
});

/** Serves the description of clouds that Azure Stack and sovereign clouds have at their ARM endpoint. */
function describing(clouds: unknown, status = 200): string {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request) =>
      new URL(request.url).pathname === "/metadata/endpoints"
        ? Response.json(clouds, { status })
        : new Response(null, { status: 404 }),
  });
  opened.defer(() => server.stop(true));
  return `http://127.0.0.1:${server.port}`;
}

async function fileWith(text: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "environments-"));
  opened.defer(() => rm(folder, { recursive: true, force: true }));
  const file = join(folder, "environment.json");
  await Bun.write(file, text);
  return file;
}

function resolve(changes: Readonly<Record<string, unknown>>, environmentFile = ""): Promise<AzureEnvironment> {
  const document = {
    subscriptionId: "sub0",
    resourceGroup: "rg0",
    location: "eastus",
    tenantId: "t",
    aadClientId: "c",
    aadClientSecret: "s",
    ...changes,
  };
  const decoded = decodeConfig(document, { AZURE_ENVIRONMENT_FILEPATH: environmentFile });
  if (!decoded.ok) throw new Error(decoded.problems.join("; "));
  return resolveEnvironment(decoded.value, { ca: undefined, signal: new AbortController().signal });
}

const publicCloud = {
  resourceManager: "https://management.azure.com",
  authority: "https://login.microsoftonline.com/",
  scope: "https://management.azure.com/.default",
  stack: false,
};
const stackCloud = {
  name: "AzureStackCloud",
  resourceManager: "https://management.stack.example/",
  authentication: {
    loginEndpoint: "https://adfs.stack.example/adfs",
    audiences: ["https://management.stack.example/guid/", "https://other.example"],
  },
};

describe("a cloud by its name (azclient cloud)", () => {
  test.each([
    ["", "azure.com", "microsoftonline.com"],
    ["AzureCloud", "azure.com", "microsoftonline.com"],
    ["AZUREPUBLICCLOUD", "azure.com", "microsoftonline.com"],
    ["azurechinacloud", "chinacloudapi.cn", "chinacloudapi.cn"],
    ["AzureUSGovernment", "usgovcloudapi.net", "microsoftonline.us"],
    ["AzureUSGovernmentCloud", "usgovcloudapi.net", "microsoftonline.us"],
    ["no such cloud", "azure.com", "microsoftonline.com"],
  ])("%p has the addresses of upstream's table", (name, management, login) => {
    expect(environmentNamed(name)).toEqual({
      resourceManager: `https://management.${management}`,
      authority: `https://login.${login}/`,
      scope: `https://management.${management}/.default`,
      stack: false,
    });
  });

  test("needs no request without resourceManagerEndpoint", async () => {
    expect(await resolve({})).toEqual(publicCloud);
    expect(await resolve({ cloud: "AzureStackCloud" })).toEqual({ ...publicCloud, stack: true });
    expect(await resolve({ cloud: "AzureStackCloud", disableAzureStackCloud: true })).toEqual(publicCloud);
  });

  test.each(["constructor", "__proto__"])(
    "a cloud named %s is unknown: it is the public one, with a warning",
    async (cloud) => {
      expect(await resolve({ cloud })).toEqual(publicCloud);
      const document = { cloud, tenantId: "t", subscriptionId: "s", useManagedIdentityExtension: true };
      expect(decodeConfig(document, {}).warnings).toContain(`cloud "${cloud}" is unknown; using AzurePublicCloud`);
    },
  );

  test.each(["https://management.example", "https://management.example/"])("scope of audience %s", (audience) => {
    const parts = { resourceManager: "https://a/", authority: "https://b", stack: false };
    expect(environmentOf({ ...parts, audience })).toEqual({
      resourceManager: "https://a",
      authority: "https://b/",
      scope: "https://management.example/.default",
      stack: false,
    });
  });
});

describe("a cloud that is described at resourceManagerEndpoint", () => {
  test("is the one with the configured name, in any case", async () => {
    const endpoint = describing([{ ...stackCloud, name: "Another", resourceManager: "https://x" }, stackCloud]);
    expect(await resolve({ cloud: "AZURESTACKCLOUD", resourceManagerEndpoint: endpoint })).toEqual({
      resourceManager: "https://management.stack.example",
      authority: "https://adfs.stack.example/adfs/",
      scope: "https://management.stack.example/guid/.default",
      stack: true,
    });
  });

  test.each([
    ["AzurePublicCloud", "AzureCloud"],
    ["azureusgovernmentcloud", "AzureUSGovernment"],
  ])("%s is the one that is called %s there", async (cloud, name) => {
    const other = { ...stackCloud, name: "AzureChinaCloud", resourceManager: "https://x" };
    const endpoint = describing([other, { ...stackCloud, name }]);
    expect(await resolve({ cloud, resourceManagerEndpoint: endpoint })).toMatchObject({
      resourceManager: "https://management.stack.example",
      stack: false,
    });
    const both = describing([
      { ...stackCloud, name, resourceManager: "https://x" },
      { ...stackCloud, name: cloud },
    ]);
    expect(await resolve({ cloud, resourceManagerEndpoint: both })).toMatchObject({
      resourceManager: "https://management.stack.example",
    });
  });

  test.each([
    ["AzurePublicCloud", undefined],
    ["Moon", "Mars"],
  ])("%s is unknown where the only cloud that is described has the name %s", async (cloud, name) => {
    const endpoint = describing([{ ...stackCloud, name }]);
    const error = await errorOf(resolve({ cloud, resourceManagerEndpoint: endpoint }));
    expect(error).toMatchObject({ code: "UnknownCloud" });
  });

  test("is the first one without a configured name", async () => {
    const endpoint = describing([stackCloud, { ...stackCloud, name: "Another", resourceManager: "https://x" }]);
    expect(await resolve({ resourceManagerEndpoint: `${endpoint}/` })).toMatchObject({
      resourceManager: "https://management.stack.example",
      stack: false,
    });
  });

  test("has the endpoint itself as its address when it names none", async () => {
    const { resourceManager: _, ...unnamed } = stackCloud;
    const endpoint = describing([unnamed]);
    expect(await resolve({ resourceManagerEndpoint: `${endpoint}/` })).toMatchObject({ resourceManager: endpoint });
  });

  test.each([
    ["an error", { code: "no" }, 500, "it answered 500"],
    ["no list", { clouds: [] }, 200, "which knows no cloud"],
    [
      "a cloud without audiences",
      [{ ...stackCloud, authentication: { loginEndpoint: "https://l" } }],
      200,
      "which knows AzureStackCloud",
    ],
    [
      "a cloud without a login service",
      [{ ...stackCloud, authentication: { audiences: ["https://a"] } }],
      200,
      "which knows AzureStackCloud",
    ],
  ])("is an error that names the key when the reply is %s", async (_name, reply, status, reason) => {
    const error = await errorOf(
      resolve({ cloud: "AzureStackCloud", resourceManagerEndpoint: describing(reply, status) }),
    );
    expect(String(error)).toContain("resourceManagerEndpoint");
    expect(String(error)).toContain(reason);
  });
});

describe("the file in AZURE_ENVIRONMENT_FILEPATH", () => {
  const addresses = {
    resourceManagerEndpoint: "https://management.local/",
    tokenAudience: "https://audience.local/",
    activeDirectoryEndpoint: "https://login.local",
  };

  test("replaces the addresses of an Azure Stack cloud", async () => {
    expect(await resolve({ cloud: "azurestackcloud" }, await fileWith(JSON.stringify(addresses)))).toEqual({
      resourceManager: "https://management.local",
      authority: "https://login.local/",
      scope: "https://audience.local/.default",
      stack: true,
    });
  });

  test.each(["resourceManagerEndpoint", "tokenAudience"])(
    "replaces only the login service when %s is missing",
    async (key) => {
      const file = await fileWith(JSON.stringify({ ...addresses, [key]: undefined }));
      expect(await resolve({ cloud: "AzureStackCloud" }, file)).toEqual({
        ...publicCloud,
        authority: "https://login.local/",
        stack: true,
      });
    },
  );

  test("replaces nothing when it is empty of addresses, or for another cloud", async () => {
    expect(await resolve({ cloud: "AzureStackCloud" }, await fileWith("{}"))).toEqual({ ...publicCloud, stack: true });
    expect(await resolve({}, await fileWith(JSON.stringify(addresses)))).toEqual(publicCloud);
  });

  test("is an error that names it when it cannot be read or is not JSON", async () => {
    const broken = await fileWith("not json");
    expect(String(await errorOf(resolve({ cloud: "AzureStackCloud" }, broken)))).toContain(`${broken} is not JSON`);
    const missing = `${broken}-missing`;
    expect(String(await errorOf(resolve({ cloud: "AzureStackCloud" }, missing)))).toContain(
      `AZURE_ENVIRONMENT_FILEPATH: cannot read ${missing}`,
    );
  });
});
