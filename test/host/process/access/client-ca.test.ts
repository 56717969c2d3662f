import { afterEach, beforeEach, expect, mock, test } from "bun:test";
import * as crypto from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

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

test("client CAs of a file that changes are reloaded while the cluster's ConfigMap cannot be read", async () => {
  api.intercept = () => status(403, "Forbidden", "not allowed");
  const clientCaFile = await caFile("client");
  const clock = manualClock();
  const { log } = capturedLog(0);
  const client = createClient(createTransport(api.access(), { userAgent: "test", qps: -1 }));
  const flags = { ...defaultOptions, clientCaFile, authenticationTolerateLookupFailure: true };
  const cas = await ClientCAs.open({ flags, client, clock, log });
  const before = cas.clients;
  const stop = new AbortController();
  const following = cas.follow(stop.signal);
  await caFile("client");
  await eventually("the new CA is used", async () => {
    await clock.advance(60_000);
    return cas.clients !== before;
  });
  expect(cas.clients).toBeDefined();
  stop.abort();
  await following;
});

test("client CAs of the cluster are reloaded while a file cannot be read, whose last content stays, with one warning", async () => {
  let published = "";
  const publish = async (name: string): Promise<void> => {
    published = (await createCertificateAuthority(name)).certPem;
  };
  await publish("cluster");
  api.intercept = () => {
    const data = { "client-ca-file": published, "requestheader-client-ca-file": published };
    return { status: 200, body: { metadata: { name: "x", resourceVersion: "1" }, data } };
  };
  const requestheaderClientCaFile = await caFile("proxy");
  const clock = manualClock();
  const { log, lines } = capturedLog(0);
  const client = createClient(createTransport(api.access(), { userAgent: "test", qps: -1 }));
  const cas = await ClientCAs.open({ flags: { ...defaultOptions, requestheaderClientCaFile }, client, clock, log });
  const [clients, proxies] = [cas.clients, cas.proxies];
  const stop = new AbortController();
  const following = cas.follow(stop.signal);
  await rm(requestheaderClientCaFile);
  await publish("another");
  await eventually("the cluster's new CA is used", async () => {
    await clock.advance(60_000);
    return cas.clients !== clients;
  });
  await eventually("this minute's look is over", () => clock.sleepers === 1);
  const looks = api.requests.length;
  await clock.advance(60_000);
  await eventually("another minute's look is over", () => api.requests.length > looks && clock.sleepers === 1);
  expect(cas.clients).toBeDefined();
  expect(cas.proxies).toBe(proxies);
  expect(JSON.stringify(lines()).split(`cannot read ${requestheaderClientCaFile}`)).toHaveLength(2);
  stop.abort();
  await following;
});

test("client CAs whose text is the same each minute are parsed once, and again when it changes", async () => {
  const real = { ...crypto };
  let parsed = 0;
  class Counted extends real.X509Certificate {
    constructor(text: string) {
      super(text);
      parsed += 1;
    }
  }
  const { certPem } = await createCertificateAuthority("cluster");
  const data = { "client-ca-file": certPem, "requestheader-client-ca-file": certPem };
  api.intercept = () => ({ status: 200, body: { metadata: { name: "x", resourceVersion: "1" }, data } });
  const clientCaFile = await caFile("client");
  const clock = manualClock();
  const client = createClient(createTransport(api.access(), { userAgent: "test", qps: -1 }));
  const flags = { ...defaultOptions, clientCaFile };
  const stop = new AbortController();
  await mock.module("node:crypto", () => ({ ...real, X509Certificate: Counted }));
  try {
    const cas = await ClientCAs.open({ flags, client, clock, log: capturedLog(0).log });
    const [first, atFirst] = [cas.clients, parsed];
    const following = cas.follow(stop.signal);
    const minute = async (): Promise<void> => {
      const before = api.requests.length;
      await clock.advance(60_000);
      await eventually("the next minute's look is over", () => api.requests.length > before && clock.sleepers === 1);
    };
    for (let passed = 0; passed < 5; passed++) await minute();
    expect([atFirst > 0, parsed - atFirst]).toEqual([true, 0]);
    await caFile("client");
    await minute();
    expect([parsed > atFirst, cas.clients === first]).toEqual([true, false]);
    stop.abort();
    await following;
  } finally {
    await mock.module("node:crypto", () => real);
  }
});
