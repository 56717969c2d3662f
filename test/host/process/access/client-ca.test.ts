import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { defaultOptions } from "../../../../host/config/flags/options.ts";
import { createClient } from "../../../../host/kube/connection/client.ts";
import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { type ClientCAFlags, ClientCAs } from "../../../../host/process/access/client-ca.ts";
import { createCertificateAuthority } from "../../../envtest/certificate-authority.ts";
import { capturedLog } from "../../kube/captured-log.ts";
import { status, StubApi } from "../../kube/stub-api.ts";

let folder = "";
let api: StubApi;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "client-ca-"));
  api = await StubApi.start();
  api.intercept = () => status(404, "NotFound", "not found");
});
afterEach(async () => {
  await api.stop();
  await rm(folder, { recursive: true });
});

async function caFile(name: string): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, (await createCertificateAuthority(name)).certPem);
  return path;
}

/** Opens the CAs; results in the paths of the requests and in the log. */
async function opened(flags: Partial<ClientCAFlags>, connected: boolean) {
  const { log, lines } = capturedLog(0);
  const client = connected ? createClient(createTransport(api.access(), { userAgent: "test", qps: -1 })) : undefined;
  const options = { flags: { ...defaultOptions, ...flags }, client, clock: manualClock(), log };
  const { clients, proxies } = await ClientCAs.open(options);
  return { given: [clients !== undefined, proxies !== undefined], requests: api.requests.length, lines: lines() };
}

test("client CAs that are both in files are not looked up in the cluster", async () => {
  const clientCaFile = await caFile("client");
  const requestheaderClientCaFile = await caFile("proxy");
  const both = await opened({ clientCaFile, requestheaderClientCaFile }, true);
  expect(both).toEqual({ given: [true, true], requests: 0, lines: [] });
  expect(await opened({ clientCaFile }, true)).toEqual({ given: [true, false], requests: 1, lines: [] });
});

test("client CAs without a cluster to ask come from the file alone, without a warning", async () => {
  const clientCaFile = await caFile("client");
  expect(await opened({ clientCaFile }, false)).toEqual({ given: [true, false], requests: 0, lines: [] });
});
