import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { messageOf } from "cloud-controller-host/sdk";
import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { errorOf } from "../../../../kit/rejection.ts";
import { countOf, nodeOf, openWorld } from "../../world.ts";

setDefaultTimeout(120_000);

const failureOf = async (work: Promise<unknown>): Promise<string> => messageOf(await errorOf(work));

test("authenticates with a client secret", async () => {
  await using world = await openWorld();
  const [machine] = await world.simulator.addInstances(1);
  await using cloud = await world.create();
  expect(await cloud.instances.instanceExists(nodeOf(machine?.nodeName ?? ""))).toBe(true);
  expect(world.simulator.requests()).toContain("POST /adfs/oauth2/token");
});

test("authenticates with a federated service-account token that the environment names", async () => {
  await using world = await openWorld();
  const [machine] = await world.simulator.addInstances(1);
  const environment = { AZURE_FEDERATED_TOKEN_FILE: world.simulator.federatedTokenFile };
  await using cloud = await world.create({ aadClientSecret: undefined }, { environment });
  expect(await cloud.instances.instanceExists(nodeOf(machine?.nodeName ?? ""))).toBe(true);
});

test("works with a tenant of Entra ID as well as with AD FS", async () => {
  await using world = await openWorld();
  const [machine] = await world.simulator.addInstances(1);
  await using cloud = await world.create({ tenantId: "11111111-2222-3333-4444-555555555555" });
  expect(await cloud.instances.instanceExists(nodeOf(machine?.nodeName ?? ""))).toBe(true);
});

test("reports a wrong secret in one line that names the keys and not the secret", async () => {
  await using world = await openWorld();
  const wrong = "hunter2-hunter2";
  const failure = await failureOf(world.create({ aadClientSecret: wrong }));
  expect(failure).toBe(
    "no Azure token for client-secret: AADSTS7000215: Invalid client secret provided; " +
      "check tenantId, aadClientId and aadClientSecret",
  );
  expect(JSON.stringify(world.logged)).not.toContain(wrong);
});

test("reports a refused federated token in one line without the token", async () => {
  await using world = await openWorld();
  const file = join(world.directory, "other-token");
  await Bun.write(file, "header.not-the-right-one.signature");
  const environment = { AZURE_FEDERATED_TOKEN_FILE: file };
  const failure = await failureOf(world.create({ aadClientSecret: undefined }, { environment }));
  expect(failure).toContain("AADSTS70021");
  expect(failure).toContain("aadFederatedTokenFile");
  expect(failure).not.toContain("not-the-right-one");
});

test("creates the cloud although the login service does not answer", async () => {
  await using world = await openWorld();
  world.simulator.failNext({ path: "/oauth2/token" }, { status: 501, times: 20 });
  await using cloud = await world.create();
  expect(world.logged.map(({ level, message }) => `${level}: ${message}`)).toEqual([
    "warn: Failed to get a token for Azure; the first request tries again",
    "warn: Unable to check that all resources of the cloud config exist",
  ]);
  const failure = await failureOf(cloud.instances.instanceExists(nodeOf("vmss0000000")));
  expect(failure).toContain(`is ${world.simulator.origin}/ in reach?`);
});

test("creates the cloud although the login service never replies, within the time for its creation", async () => {
  await using world = await openWorld();
  const hold = world.simulator.hold({ path: "/oauth2/token" });
  const startedAt = performance.now();
  const creating = world.create();
  await eventually("the attempt is given up", () => world.logged.length > 0, 60_000);
  hold.release();
  await using cloud = await creating;
  expect(cloud.instances).toBeDefined();
  expect(performance.now() - startedAt).toBeLessThan(25_000);
  expect(world.logged[0]).toMatchObject({
    level: "warn",
    message: "Failed to get a token for Azure; the first request tries again",
  });
  expect(String(world.logged[0]?.fields["error"])).toContain("no answer within 8 s");
});

describe("a token that ARM refuses before it has expired", () => {
  const logins = (requests: readonly string[]): number => requests.filter((line) => line.startsWith("POST")).length;

  test.each([
    ["one tenant", {}],
    ["two tenants", { tenantId: "home-tenant", networkResourceTenantID: "network-tenant" }],
  ])("is replaced by a new one, once for all requests under way, which are sent again: %s", async (_name, tenants) => {
    await using world = await openWorld();
    const { vmNetwork } = await world.clients(tenants);
    const read = (): Promise<unknown> => Array.fromAsync(vmNetwork.publicIPAddresses.list("rg0"));
    await read();
    world.simulator.revokeTokens();
    world.simulator.clearLog();
    expect(await Promise.all([read(), read(), read()])).toEqual([[], [], []]);
    const tokens = "networkResourceTenantID" in tenants ? 2 : 1;
    expect(logins(world.simulator.requests())).toBe(tokens);
    expect(countOf(world.simulator, "/publicIPAddresses")).toBe(6);
  });

  test("is replaced twice a minute at most, and the caller gets ARM's error", async () => {
    await using world = await openWorld();
    const clock = manualClock();
    const { network } = await world.clients({}, { clock });
    world.simulator.clearLog();
    const list = { path: "/publicIPAddresses" };
    world.simulator.failNext(list, { status: 401, code: "InvalidAuthenticationToken", times: 1_000 });
    const ask = (): Promise<unknown> => errorOf(Array.fromAsync(network.publicIPAddresses.list("rg0")));
    for (let request = 0; request < 5; request++)
      expect(await ask()).toMatchObject({ status: 401, code: "InvalidAuthenticationToken" });
    expect(logins(world.simulator.requests())).toBe(1);
    expect(countOf(world.simulator, "/publicIPAddresses")).toBe(6);
    await clock.advance(30_000);
    await ask();
    expect(logins(world.simulator.requests())).toBe(2);
  });

  test("is replaced for workload identity, too", async () => {
    await using world = await openWorld();
    const environment = { AZURE_FEDERATED_TOKEN_FILE: world.simulator.federatedTokenFile };
    const { network } = await world.clients({ aadClientSecret: undefined }, { environment });
    world.simulator.revokeTokens();
    expect(await Array.fromAsync(network.publicIPAddresses.list("rg0"))).toEqual([]);
  });
});

test.each([
  ["resourceManagerCAFile", (pipe: string) => ({ changes: { resourceManagerCAFile: pipe }, environment: {} })],
  [
    "AZURE_ENVIRONMENT_FILEPATH",
    (pipe: string) => ({ changes: { cloud: "AzureStackCloud" }, environment: { AZURE_ENVIRONMENT_FILEPATH: pipe } }),
  ],
] as const)("refuses a pipe as %s at once", async (key, settingsOf) => {
  await using world = await openWorld();
  const pipe = await makePipe(world.directory);
  const { changes, environment } = settingsOf(pipe);
  const failure = await failureOf(world.create(changes, { environment }));
  expect(failure).toContain(`${key}: cannot read ${pipe}`);
  expect(failure).toContain("is a pipe, a socket or a device; name a regular file");
});

test("refuses a file of more than 16 MiB as resourceManagerCAFile", async () => {
  await using world = await openWorld();
  const file = join(world.directory, "large");
  await writeFile(file, "-----BEGIN CERTIFICATE-----");
  await truncate(file, 16 * 1024 * 1024 + 1);
  const failure = await failureOf(world.create({ resourceManagerCAFile: file }));
  expect(failure).toContain(`cannot read ${file}: ${file} has more than 16777216 bytes`);
});

test("a pipe in place of the federated token fails each request, until there is a file again", async () => {
  await using world = await openWorld();
  const pipe = await makePipe(world.directory);
  const environment = { AZURE_FEDERATED_TOKEN_FILE: pipe };
  const { network } = await world.clients({ aadClientSecret: undefined }, { environment });
  const read = (): Promise<unknown> => Array.fromAsync(network.publicIPAddresses.list("rg0"));
  expect(await failureOf(read())).toContain(`aadFederatedTokenFile: ${pipe} is not a regular file`);
  await rm(pipe);
  await Bun.write(pipe, Bun.file(world.simulator.federatedTokenFile));
  expect(await read()).toEqual([]);
});

async function makePipe(directory: string): Promise<string> {
  const pipe = join(directory, "pipe");
  expect(await Bun.spawn(["mkfifo", pipe]).exited).toBe(0);
  return pipe;
}

test("does not trust an unknown certificate authority", async () => {
  await using world = await openWorld();
  const failure = await failureOf(world.create({ resourceManagerCAFile: undefined }));
  expect(failure).toContain("resourceManagerEndpoint: cannot read");
  expect(failure).toContain("certificate");
  expect(failure).toContain("check the address and resourceManagerCAFile");
});

test("does not blame the address for an endpoint that is throttled or down", async () => {
  await using world = await openWorld();
  for (const status of [429, 503]) {
    using server = Bun.serve({ port: 0, fetch: () => new Response("", { status }) });
    const failure = await failureOf(world.create({ resourceManagerEndpoint: server.url.origin }));
    expect(failure).toContain(`it answered ${status}; the service is throttled or down, so try again later`);
  }
});

test("names the file when the certificate authority cannot be read", async () => {
  await using world = await openWorld();
  expect(await failureOf(world.create({ resourceManagerCAFile: "/nowhere/ca.pem" }))).toContain(
    "resourceManagerCAFile: cannot read /nowhere/ca.pem",
  );
  const file = join(world.directory, "not-pem");
  await Bun.write(file, "hello");
  expect(await failureOf(world.create({ resourceManagerCAFile: file }))).toContain("holds no PEM certificate");
});

test("names the clouds that an endpoint describes when the configured one is not among them", async () => {
  await using world = await openWorld();
  expect(await failureOf(world.create({ cloud: "MyStack" }))).toBe(
    `cloud "MyStack" is not described at resourceManagerEndpoint ${world.simulator.origin}, ` +
      "which knows AzurePublicCloud, AzureCloud, AzureStackCloud",
  );
});

test("reads network resources of another tenant and subscription with a token of that tenant", async () => {
  await using world = await openWorld();
  const changes = { networkResourceTenantID: "network-tenant", networkResourceSubscriptionID: "sub1" };
  const { compute, network, vmNetwork } = await world.clients({ ...changes, tenantId: "home-tenant" });
  world.simulator.clearLog();
  await Array.fromAsync(compute.virtualMachineScaleSets.list("rg0"));
  await Array.fromAsync(vmNetwork.networkInterfaces.list("rg0"));
  await errorOf(Array.fromAsync(network.loadBalancers.list("rg0")));
  const calls = world.simulator.log.filter(({ path }) => path.startsWith("/subscriptions"));
  expect(calls.map(({ path, auxiliary }) => `${path.split("/")[2]} ${path.split("/").at(-1)} ${auxiliary}`)).toEqual([
    "sub0 virtualMachineScaleSets true",
    "sub0 networkInterfaces true",
    "sub1 loadBalancers false",
  ]);
  const logins = world.simulator.requests().filter((line) => line.startsWith("POST"));
  expect(new Set(logins)).toEqual(new Set(["POST /network-tenant/oauth2/v2.0/token"]));
});
