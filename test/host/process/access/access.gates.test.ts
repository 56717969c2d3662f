import "reflect-metadata";

import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { systemClock } from "../../../../host/async/clock.ts";
import { defaultOptions } from "../../../../host/config/flags/options.ts";
import { createClient } from "../../../../host/kube/connection/client.ts";
import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { openAccess } from "../../../../host/process/access/access.ts";
import { createLogger } from "../../../../host/process/log/log.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { headerValues, type PeerInfo } from "../../../../host/process/serving/peer.ts";
import { recordSent, type SentRequest } from "../../../../host/sandbox/testing/sent.ts";
import { SandboxApiServer } from "../../../../sdk/testing/api-server/index.ts";
import { type CertificateAuthority, createCertificateAuthority } from "../../../envtest/certificate-authority.ts";

setDefaultTimeout(120_000);

let clientCA: CertificateAuthority;
let proxyCA: CertificateAuthority;
beforeAll(async () => {
  [clientCA, proxyCA] = await Promise.all([
    createCertificateAuthority("clients"),
    createCertificateAuthority("proxies"),
  ]);
});

interface Reply {
  readonly response: Response;
  /** Who the API server was asked about. */
  readonly requested: readonly unknown[];
}

/** Sends one request through the guard, with every gate on but the one named. */
async function answered(off: string | undefined, peer: PeerInfo, headers: Record<string, string> = {}): Promise<Reply> {
  await using stack = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "access-gates-"));
  stack.defer(() => rm(directory, { recursive: true }));
  const [clientCaFile, requestheaderClientCaFile] = [join(directory, "clients"), join(directory, "proxies")];
  await writeFile(clientCaFile, clientCA.certPem);
  await writeFile(requestheaderClientCaFile, proxyCA.certPem);
  const api = stack.use(await SandboxApiServer.start({ allows: () => true }));
  const credentials = { tls: { ca: api.ca }, headers: { Authorization: `Bearer ${api.tokens.of("reviewer")}` } };
  const server = { url: api.url, proxy: undefined, credentials: async () => credentials };
  const transport = createTransport(server, { userAgent: "test", qps: -1 });
  stack.defer(() => transport.close());
  const sent: SentRequest[] = [];
  const client = createClient(recordSent(transport, "test", sent));
  const access = await openAccess({
    flags: {
      ...defaultOptions,
      clientCaFile,
      requestheaderClientCaFile,
      requestheaderUidHeaders: ["X-Remote-Uid"],
    },
    authenticationClient: client,
    authorizationClient: client,
    featureEnabled: (gate) => gate !== off,
    clock: systemClock,
    log: createLogger({ format: "text", verbosity: 0, write: () => undefined }),
    metrics: new MetricsRegistry().root,
  });
  const handler = access.guard(() => Promise.resolve(new Response("in")));
  const response = await handler(new Request("https://localhost:10258/metrics", { headers }), peer);
  const requested = sent
    .filter(({ path }) => path.endsWith("/subjectaccessreviews"))
    .map(({ body }) => (typeof body === "object" && body !== null && "spec" in body ? body.spec : undefined));
  return { response, requested };
}

function peerOf(certPem?: string, headers: Record<string, string> = {}): PeerInfo {
  const plain = {
    address: "",
    port: 0,
    httpVersion: 2,
    headerValues: headerValues(Object.entries(headers).flat()),
    authenticated: () => undefined,
  };
  if (certPem === undefined) return { ...plain, certificate: undefined };
  const { raw } = new X509Certificate(certPem);
  return { ...plain, certificate: { raw, intermediates: [] } };
}

describe("the feature gate RemoteRequestHeaderUID", () => {
  const headers = { "X-Remote-User": "alice", "X-Remote-Uid": "42" };
  const asking = async (off?: string): Promise<readonly unknown[]> => {
    const { certPem } = await proxyCA.issueClient("front-proxy");
    return (await answered(off, peerOf(certPem, headers), headers)).requested;
  };

  test("a trusted proxy sets the UID of the user while the gate is on", async () => {
    expect(await asking()).toMatchObject([{ user: "alice", uid: "42" }]);
  });

  test("off, the user has none", async () => {
    expect(await asking("RemoteRequestHeaderUID")).toMatchObject([{ user: "alice", uid: "" }]);
  });
});

describe("the feature gate AllowParsingUserUIDFromCertAuth", () => {
  test("the certificate sets the UID of its user while the gate is on, and two UIDs are a 401", async () => {
    const peer = async (uids: readonly string[]): Promise<PeerInfo> =>
      peerOf((await clientCA.issueClient("jane", [], uids)).certPem);
    expect((await answered(undefined, await peer(["7"]))).requested).toMatchObject([{ user: "jane", uid: "7" }]);
    expect((await answered(undefined, await peer(["7", "8"]))).response.status).toBe(401);
  });

  test("off, UIDs in the certificate are ignored", async () => {
    const { certPem } = await clientCA.issueClient("jane", [], ["7", "8"]);
    const { response, requested } = await answered("AllowParsingUserUIDFromCertAuth", peerOf(certPem));
    expect(requested).toMatchObject([{ user: "jane", uid: "" }]);
    expect(response.status).toBe(200);
  });
});

describe("the feature gate UnauthenticatedHTTP2DOSMitigation", () => {
  const connectionOf = async (off: string | undefined, headers?: Record<string, string>): Promise<string | null> =>
    (await answered(off, peerOf(), headers)).response.headers.get("connection");

  test("the connection of an unauthenticated client closes after the reply while the gate is on", async () => {
    expect(await connectionOf(undefined)).toBe("close");
    expect(await connectionOf(undefined, { Authorization: "Bearer unknown" })).toBe("close");
  });

  test("off, the connection of an unauthenticated client stays open", async () => {
    expect(await connectionOf("UnauthenticatedHTTP2DOSMitigation")).toBeNull();
    expect(await connectionOf("UnauthenticatedHTTP2DOSMitigation", { Authorization: "Bearer unknown" })).toBeNull();
  });
});

test("only the connection of an authenticated client is marked as such", async () => {
  let marked = 0;
  const marking = (peer: PeerInfo): PeerInfo => ({ ...peer, authenticated: () => void marked++ });
  await answered(undefined, marking(peerOf()));
  await answered(undefined, marking(peerOf()), { Authorization: "Bearer unknown" });
  expect(marked).toBe(0);
  await answered(undefined, marking(peerOf((await clientCA.issueClient("jane")).certPem)));
  expect(marked).toBe(1);
});
