import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { once } from "node:events";
import { connect, createSecureServer, type Http2SecureServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { connect as connectTls, TLSSocket } from "node:tls";

import type { KeyPair } from "../../host/process/serving/self-signed.ts";
import { type CertificateAuthority, createCertificateAuthority } from "../envtest/certificate-authority.ts";

/** What secure serving is built on: one port for HTTP/2 and HTTP/1.1, client certificates requested, never required. */
let authority: CertificateAuthority;
let server: Http2SecureServer;
let port = 0;
let url = "";
/** Resolves when the server has seen the client of a request to /stream disconnect. */
let gone = Promise.withResolvers<void>();

const portOf = (address: AddressInfo | string | null): number =>
  typeof address === "object" && address !== null ? address.port : 0;

/** The client certificate's subject; empty without one. */
function subjectOf(socket: unknown): string {
  if (!(socket instanceof TLSSocket)) return "no TLS socket";
  const { subject, raw } = socket.getPeerCertificate();
  if (subject === undefined) return "";
  return `${String(subject.CN)} of ${[subject.O].flat().join(" and ")} in ${raw.length > 0 ? "DER" : "nothing"}`;
}

beforeAll(async () => {
  authority = await createCertificateAuthority();
  const { certPem: cert, keyPem: key } = await authority.issueServer(["127.0.0.1", "localhost"]);
  const options = { cert, key, ca: authority.certPem, requestCert: true, rejectUnauthorized: false, allowHTTP1: true };
  server = createSecureServer(options, (request, response) => {
    if (request.url === "/stream") {
      response.on("close", () => gone.resolve());
      response.write("first");
      return;
    }
    const socket = request.httpVersion === "2.0" ? request.stream.session?.socket : request.socket;
    response.end(`${request.httpVersion}: ${subjectOf(socket)}`);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  port = portOf(server.address());
  url = `https://127.0.0.1:${port}`;
});

afterAll(() => {
  server.close();
});

async function getByHttp2(pair: Partial<KeyPair>): Promise<string> {
  const session = connect(url, { ca: authority.certPem, cert: pair.certPem, key: pair.keyPem });
  const stream = session.request({ ":path": "/" });
  let body = "";
  for await (const chunk of stream) body += String(chunk);
  session.close();
  return body;
}

const getByFetch = async (pair: Partial<KeyPair>): Promise<string> =>
  (await fetch(url, { tls: { ca: authority.certPem, cert: pair.certPem, key: pair.keyPem } })).text();

describe("node:http2 with allowHTTP1", () => {
  test("sees the subject and the DER of a client certificate over HTTP/2", async () => {
    const pair = await authority.issueClient("ann", ["blue", "green"]);
    expect(await getByHttp2(pair)).toBe("2.0: ann of blue and green in DER");
  });

  test("sees the subject and the DER of a client certificate over HTTP/1.1", async () => {
    const pair = await authority.issueClient("ben", ["red"]);
    expect(await getByFetch(pair)).toBe("1.1: ben of red in DER");
  });

  test("serves clients that show no certificate", async () => {
    expect(await getByFetch({})).toBe("1.1: ");
    expect(await getByHttp2({})).toBe("2.0: ");
  });

  test("accepts a new certificate while it serves", async () => {
    const renewed = await authority.issueServer(["127.0.0.1", "renewed.example"]);
    server.setSecureContext({ cert: renewed.certPem, key: renewed.keyPem, ca: authority.certPem });
    const socket = connectTls({ port, host: "127.0.0.1", ca: authority.certPem });
    await once(socket, "secureConnect");
    const { subjectaltname } = socket.getPeerCertificate();
    socket.destroy();
    expect(subjectaltname).toContain("renewed.example");
    expect(await getByFetch(await authority.issueClient("cas", ["red"]))).toBe("1.1: cas of red in DER");
  });

  test("is notified when a client abandons a streaming response", async () => {
    gone = Promise.withResolvers<void>();
    const leave = new AbortController();
    const response = await fetch(`${url}/stream`, { tls: { ca: authority.certPem }, signal: leave.signal });
    const reader = response.body?.getReader();
    const first = await reader?.read();
    expect(new TextDecoder().decode(first?.value)).toBe("first");
    leave.abort();
    await expect(reader?.read()).rejects.toThrow();
    await gone.promise;
  });
});

/** Why client certificates are verified by `CertificateVerifier` and not by the TLS library. */
describe("socket.authorized", () => {
  test("is one verdict over all CAs of the context, and stays true on a connection whose CA has been removed", async () => {
    const [clients, proxies] = await Promise.all([authority, createCertificateAuthority("proxies")]);
    const { certPem: cert, keyPem: key } = await authority.issueServer(["127.0.0.1"]);
    const ca = [clients.certPem, proxies.certPem];
    const verdicts = createSecureServer({ cert, key, ca, requestCert: true, rejectUnauthorized: false });
    verdicts.on("request", ({ stream: { session } }, response) => {
      response.end(String(session?.socket instanceof TLSSocket && session.socket.authorized));
    });
    verdicts.listen(0, "127.0.0.1");
    await once(verdicts, "listening");
    const open = async (issuer: CertificateAuthority): Promise<() => Promise<string>> => {
      const pair = await issuer.issueClient("ann");
      const session = connect(`https://127.0.0.1:${portOf(verdicts.address())}`, {
        ca: authority.certPem,
        cert: pair.certPem,
        key: pair.keyPem,
      });
      return async () => {
        let body = "";
        for await (const chunk of session.request({ ":path": "/" })) body += String(chunk);
        return body;
      };
    };
    const [client, proxy] = await Promise.all([open(clients), open(proxies)]);
    expect([await client(), await proxy()]).toEqual(["true", "true"]);
    verdicts.setSecureContext({ cert, key, ca: clients.certPem });
    expect(await proxy()).toBe("true");
    expect(await (await open(proxies))()).toBe("false");
    verdicts.close();
  });
});

describe("native fetch", () => {
  test("sends the certificate of each call, also when two clients alternate", async () => {
    const [ann, ben] = [await authority.issueClient("ann", ["blue"]), await authority.issueClient("ben", ["red"])];
    for (let round = 0; round < 3; round++) {
      expect(await getByFetch(ann)).toContain("ann of blue");
      expect(await getByFetch(ben)).toContain("ben of red");
      expect(await getByFetch({})).toBe("1.1: ");
    }
  });

  test("refuses a server with an unknown CA", async () => {
    const stranger = await createCertificateAuthority("stranger");
    await expect(fetch(url, { tls: { ca: stranger.certPem } })).rejects.toThrow();
    await expect(fetch(url)).rejects.toThrow();
  });
});
