import { afterAll, afterEach, beforeAll, describe, expect, setSystemTime, test } from "bun:test";
import { createHash, createPrivateKey } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { createHttpHeaders } from "@azure/core-rest-pipeline";

import {
  makeCredential,
  type RenewableCredential,
} from "../../../../../plugins/azure-cloud/arm/credentials/credential.ts";
import { fetchClient } from "../../../../../plugins/azure-cloud/arm/transport/fetch-client.ts";
import { environmentOf } from "../../../../../plugins/azure-cloud/config/environments.ts";
import type { Identity } from "../../../../../plugins/azure-cloud/config/identity.ts";
import { makeCertificate } from "../../../../../plugins/azure-cloud/simulator/http/certificate.ts";
import { Random } from "../../../../kit/random.ts";
import { errorOf } from "../../../../kit/rejection.ts";

const lifetimeSeconds = 3600;
const scope = "https://management.example/.default";

/** A token endpoint over TLS, and the metadata service of a VM, that record their requests. */
class TokenEndpoint implements AsyncDisposable {
  readonly forms: URLSearchParams[] = [];
  /** The description with which the next login is refused. */
  refusal: string | undefined;
  /** Replies to the next requests for a token, in place of one. */
  readonly faults: (() => Response | Promise<Response>)[] = [];
  readonly metadataQueries: URLSearchParams[] = [];
  readonly ca: string;
  readonly #login: Bun.Server<undefined>;
  readonly #metadata: Bun.Server<undefined>;

  private constructor(ca: string, tls: { readonly cert: string; readonly key: string }) {
    this.ca = ca;
    this.#login = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      development: false,
      tls,
      fetch: (request) => this.#answerLogin(request),
    });
    this.#metadata = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      development: false,
      fetch: (request) => this.#answerMetadata(request),
    });
  }

  static async start(): Promise<TokenEndpoint> {
    const { ca, certificate, key } = await makeCertificate();
    return new TokenEndpoint(ca, { cert: certificate, key });
  }

  get origin(): string {
    return `https://127.0.0.1:${this.#login.port}`;
  }

  get metadataOrigin(): string {
    return `http://127.0.0.1:${this.#metadata.port}`;
  }

  credential(identity: Identity, timeoutMs = 30_000): Promise<RenewableCredential> {
    const environment = environmentOf({
      resourceManager: this.origin,
      authority: this.origin,
      audience: "https://management.example",
      stack: false,
    });
    const httpClient = fetchClient({
      ca: [this.ca],
      signal: new AbortController().signal,
      createHeaders: createHttpHeaders,
      timeoutMs,
    });
    return makeCredential(identity, { environment, httpClient });
  }

  async #answerLogin(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    if (pathname.endsWith("/.well-known/openid-configuration")) {
      const issuer = this.origin + pathname.slice(0, pathname.indexOf("/.well-known"));
      return Response.json({
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/keys`,
      });
    }
    if (request.method !== "POST") return new Response(null, { status: 404 });
    this.forms.push(new URLSearchParams(await request.text()));
    const fault = this.faults.shift();
    if (fault !== undefined) return fault();
    const error_description = this.refusal;
    this.refusal = undefined;
    if (error_description !== undefined)
      return Response.json({ error: "invalid_client", error_description }, { status: 401 });
    return Response.json({
      token_type: "Bearer",
      expires_in: lifetimeSeconds,
      access_token: `token-${this.forms.length}`,
    });
  }

  #answerMetadata(request: Request): Response {
    const { searchParams } = new URL(request.url);
    if (request.headers.get("metadata") !== "true") return new Response(null, { status: 400 });
    this.metadataQueries.push(searchParams);
    const expires_on = Math.floor(Date.now() / 1000) + lifetimeSeconds;
    return Response.json({
      token_type: "Bearer",
      access_token: `vm-token-${this.metadataQueries.length}`,
      expires_on,
      expires_in: lifetimeSeconds,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#login.stop(true), this.#metadata.stop(true)]);
  }
}

let endpoint: TokenEndpoint;
let folder: string;

beforeAll(async () => {
  endpoint = await TokenEndpoint.start();
  folder = await mkdtemp(join(tmpdir(), "identity-modes-"));
  // The SDK's own variable for the address of the VM's metadata service.
  process.env["AZURE_POD_IDENTITY_AUTHORITY_HOST"] = endpoint.metadataOrigin;
});

afterAll(async () => {
  delete process.env["AZURE_POD_IDENTITY_AUTHORITY_HOST"];
  await endpoint[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

afterEach(() => {
  setSystemTime();
  endpoint.faults.length = 0;
});

const lastForm = (): Readonly<Record<string, string>> => Object.fromEntries(endpoint.forms.at(-1) ?? []);

/** Runs the work an hour later, when every token has expired. */
async function anHourLater<T>(work: () => Promise<T>): Promise<T> {
  setSystemTime(new Date(Date.now() + lifetimeSeconds * 1000));
  try {
    return await work();
  } finally {
    setSystemTime();
  }
}

const secretIdentity: Identity = { kind: "client-secret", tenantId: "t", clientId: "c", secret: "s3cr3t" };

const certificateIdentity = (file: string, password = ""): Identity => ({
  kind: "client-certificate",
  tenantId: "t",
  clientId: "c",
  file,
  password,
});

/** Header and payload of the assertion in the last request for a token. */
function lastAssertion(): { readonly header: unknown; readonly payload: unknown } {
  const [header = "", payload = ""] = (lastForm()["client_assertion"] ?? "").split(".");
  const decode = (part: string): unknown => JSON.parse(Buffer.from(part, "base64url").toString());
  return { header: decode(header), payload: decode(payload) };
}

const headerFor = (der: Uint8Array) => ({
  x5c: [Buffer.from(der).toString("base64")],
  "x5t#S256": createHash("sha256").update(der).digest("base64url"),
});

describe("a service principal", () => {
  test("a service principal with a secret sends the secret and the scope", async () => {
    const credential = await endpoint.credential(secretIdentity);
    expect((await credential.getToken(scope))?.token).toBe(`token-${endpoint.forms.length}`);
    expect(lastForm()).toMatchObject({ client_id: "c", client_secret: "s3cr3t", grant_type: "client_credentials" });
    expect(lastForm()["scope"]).toContain(scope);
  });

  test("a service principal with a secret keeps its token until it expires, and then requests another one", async () => {
    const credential = await endpoint.credential(secretIdentity);
    const first = await credential.getToken(scope);
    expect((await credential.getToken(scope))?.token).toBe(first?.token ?? "");
    const later = await anHourLater(() => credential.getToken(scope));
    expect(later?.token).toBe(`token-${endpoint.forms.length}`);
    expect(later?.token).not.toBe(first?.token ?? "");
  });

  test("is refused with an error that does not repeat the secret, even where the login service does", async () => {
    const credential = await endpoint.credential(secretIdentity);
    endpoint.refusal = "AADSTS7000215: Invalid client secret s3cr3t provided: s3cr3t.";
    const error = await errorOf(credential.getToken(scope));
    expect(String(error)).toContain("AADSTS7000215: Invalid client secret [secret] provided: [secret]");
    expect(JSON.stringify(error) + String(error)).not.toContain("s3cr3t");
  });

  test("a service principal with a certificate signs an assertion with it and sends the chain", async () => {
    const file = join(folder, "certificate.pem");
    const { privateKey, certificate, der } = await rsaCertificate();
    await writeFile(file, `${privateKey}\n${certificate}\n`);
    const credential = await endpoint.credential(certificateIdentity(file));
    await credential.getToken(scope);
    expect(lastAssertion().header).toMatchObject(headerFor(der));
    expect(lastAssertion().payload).toMatchObject({ iss: "c", sub: "c" });
    expect(lastForm()["client_secret"]).toBeUndefined();
  });

  test("a service principal with a certificate whose key has a password decrypts the key", async () => {
    const file = join(folder, "encrypted.pem");
    const { privateKey, certificate, der } = await rsaCertificate();
    const options = { type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "open sesame" } as const;
    await writeFile(file, `${createPrivateKey(privateKey).export(options)}\n${certificate}\n`);
    const credential = await endpoint.credential(certificateIdentity(file, "open sesame"));
    await credential.getToken(scope);
    expect(lastAssertion().header).toMatchObject(headerFor(der));
    const wrong = await endpoint.credential(certificateIdentity(file, "close sesame"));
    const error = String(await errorOf(wrong.getToken(scope)));
    expect(error).toContain("no Azure token for client-certificate");
    expect(error).not.toContain("close sesame");
  });

  test("a service principal with a certificate that was replaced signs with the new one once its token has expired", async () => {
    const file = join(folder, "rotated.pem");
    const [before, after] = [await rsaCertificate(), await rsaCertificate()];
    await writeFile(file, `${before.privateKey}\n${before.certificate}\n`);
    const credential = await endpoint.credential(certificateIdentity(file));
    await credential.getToken(scope);
    await writeFile(file, `${after.privateKey}\n${after.certificate}\n`);
    await anHourLater(() => credential.getToken(scope));
    expect(lastAssertion().header).toMatchObject(headerFor(after.der));
  });

  test("a service principal with a certificate that is being replaced signs with the one before until the new one is complete", async () => {
    const file = join(folder, "half-written.pem");
    const [before, after] = [await rsaCertificate(), await rsaCertificate()];
    const whole = `${after.privateKey}\n${after.certificate}\n`;
    await writeFile(file, `${before.privateKey}\n${before.certificate}\n`);
    const credential = await endpoint.credential(certificateIdentity(file));
    await credential.getToken(scope);
    const partial = [
      "",
      whole.slice(0, 900),
      `${after.privateKey}\n`,
      whole.slice(0, whole.length - 300),
      `${after.certificate}\n`,
      `${before.privateKey}\n${after.certificate}\n`,
    ];
    for (const [index, content] of partial.entries()) {
      await writeFile(file, content);
      const sent = endpoint.forms.length;
      setSystemTime(new Date(Date.now() + (index + 1) * 2 * lifetimeSeconds * 1000));
      await credential.getToken(scope);
      expect(endpoint.forms.length).toBe(sent + 1);
      expect(lastAssertion().header).toMatchObject(headerFor(before.der));
    }
    endpoint.refusal = "AADSTS700027: The certificate has expired.";
    setSystemTime(new Date(Date.now() + 24 * lifetimeSeconds * 1000));
    expect(String(await errorOf(credential.getToken(scope)))).toContain(
      `aadClientCertPath; the certificate read before is in use, because the private key in ${file} does not belong`,
    );
    await writeFile(file, whole);
    endpoint.refusal = undefined;
    await credential.getToken(scope);
    expect(lastAssertion().header).toMatchObject(headerFor(after.der));
  });

  test.each([
    ["a PFX file", Buffer.from([0x30, 0x82, 0x0a, 0x01]), 'convert it to PEM with "openssl pkcs12 -in '],
    ["no certificate", "hello", "has no PEM certificate"],
  ])("is refused before any request with %s, in words that say what to do", async (_name, content, advice) => {
    const file = join(folder, "unusable.pem");
    await writeFile(file, content);
    const credential = await endpoint.credential(certificateIdentity(file));
    const sent = endpoint.forms.length;
    const error = await errorOf(credential.getToken(scope));
    expect(String(error)).toContain(`aadClientCertPath: ${file}`);
    expect(String(error)).toContain(advice);
    expect(error).toMatchObject({ rejected: true });
    expect(endpoint.forms.length).toBe(sent);
  });

  test("a service principal with a certificate gets another token once it has given up the one it has, also while the file is being replaced", async () => {
    const file = join(folder, "given-up.pem");
    const { privateKey, certificate, der } = await rsaCertificate();
    await writeFile(file, `${privateKey}\n${certificate}\n`);
    const credential = await endpoint.credential(certificateIdentity(file));
    const first = await credential.getToken(scope);
    expect((await credential.getToken(scope))?.token).toBe(first?.token ?? "");
    credential.renew();
    const second = await credential.getToken(scope);
    expect(second?.token).not.toBe(first?.token ?? "");
    await writeFile(file, "half");
    credential.renew();
    const third = await credential.getToken(scope);
    expect(third?.token).not.toBe(second?.token ?? "");
    expect(lastAssertion().header).toMatchObject(headerFor(der));
    expect((await credential.getToken(scope))?.token).toBe(third?.token ?? "");
  });

  test("a service principal whose certificate is a pipe fails at once", async () => {
    const file = join(folder, "pipe.pem");
    expect(await Bun.spawn(["mkfifo", file]).exited).toBe(0);
    const credential = await endpoint.credential(certificateIdentity(file));
    expect(String(await errorOf(credential.getToken(scope)))).toContain(`aadClientCertPath: cannot read ${file}`);
  });

  test("a service principal whose certificate cannot be read may find it later", async () => {
    const file = join(folder, "later.pem");
    const credential = await endpoint.credential(certificateIdentity(file));
    const error = await errorOf(credential.getToken(scope));
    expect(error).toMatchObject({ rejected: false });
    expect(String(error)).toContain(`aadClientCertPath: cannot read ${file}`);
    const { privateKey, certificate } = await rsaCertificate();
    await writeFile(file, `${privateKey}\n${certificate}\n`);
    expect((await credential.getToken(scope))?.token).toBe(`token-${endpoint.forms.length}`);
  });
});

describe("a login service that fails", () => {
  const timeoutMs = 2_000;
  const faults: Readonly<Record<string, () => Response | Promise<Response>>> = {
    "an error of the service": () => new Response("", { status: 500 }),
    "a proxy's page": () => new Response("<html>503</html>", { status: 503, headers: { "retry-after": "0" } }),
    throttling: () => new Response("{}", { status: 429, headers: { "retry-after": "0" } }),
    "half a reply": () =>
      new Response('{"token_type":"Bearer","access_tok', { headers: { "content-type": "text/json" } }),
    "a login page": () => new Response("<html>Sign in</html>"),
    "no token": () => Response.json({}),
    "a lost connection": () =>
      new Response(
        new ReadableStream({
          async pull(controller) {
            controller.enqueue(new TextEncoder().encode("{"));
            await Bun.sleep(1);
            controller.error(new Error("lost"));
          },
        }),
      ),
    "an assertion that has expired": () =>
      Response.json(
        { error: "invalid_client", error_description: "AADSTS700024: Client assertion has expired, also s3cr3t." },
        { status: 401 },
      ),
  };
  test.each(["retry-after", "retry-after-ms", "x-ms-retry-after-ms"])(
    "a login service that fails with an unusable wait is asked once, and neither then nor at once again: %s",
    async (header) => {
      const credential = await endpoint.credential({ ...secretIdentity, clientId: `unusable-${header}` }, timeoutMs);
      endpoint.faults.push(() => new Response("{}", { status: 429, headers: { [header]: "-5" } }));
      const before = endpoint.forms.length;
      expect(String(await errorOf(credential.getToken(scope)))).toContain("the reply was 429");
      const again = String(await errorOf(credential.getToken(scope)));
      expect(again).toContain("no Azure token for client-secret");
      expect(again).not.toContain("the reply was");
      expect(endpoint.forms.length).toBe(before + 1);
    },
  );

  test.each(["31536000", "-5", "soon", new Date(2_000_000_000_000).toUTCString(), "0"])(
    "is asked again after a minute at most, whatever it names: Retry-After %p",
    async (value) => {
      const credential = await endpoint.credential({ ...secretIdentity, clientId: `retry-${value}` }, timeoutMs);
      // A 400 is not retried by the SDK, but its Retry-After keeps MSAL from asking again.
      endpoint.faults.push(() => Response.json({}, { status: 400, headers: { "retry-after": value } }));
      expect(String(await errorOf(credential.getToken(scope)))).toContain("no Azure token");
      setSystemTime(new Date(Date.now() + 61_000));
      expect((await credential.getToken(scope))?.token).toBe(`token-${endpoint.forms.length}`);
    },
  );

  /** Requests per attempt: the SDK's own, and no more. */
  const maxRequests = 4;

  test.each([20_261_122, 41])(
    "costs few requests, is reported in one line without a secret, and is forgotten when it ends (seed %d)",
    async (seed) => {
      const random = new Random(seed);
      const credential = await endpoint.credential(secretIdentity, timeoutMs);
      for (let step = 1; step <= 8; step++) {
        setSystemTime(new Date(Date.now() + 2 * lifetimeSeconds * 1000));
        const names = Array.from({ length: random.between(1, 2) }, () => random.pick(Object.keys(faults)) ?? "");
        endpoint.faults.push(...names.flatMap((name) => faults[name] ?? []));
        const before = endpoint.forms.length;
        const outcome = await credential.getToken(scope).then((token) => token?.token, String);
        const context = `seed ${seed}, step ${step}: ${names.join(", ")}: ${outcome}`;
        expect(endpoint.forms.length - before, context).toBeWithin(1, maxRequests + 1);
        expect(outcome, context).toMatch(/^token-\d+$|^\w+: no Azure token for client-secret: [^\r\n]+$/u);
        expect(outcome, context).not.toMatch(/s3cr3t|object Object|verbose/u);
        endpoint.faults.length = 0;
        expect((await credential.getToken(scope))?.token, context).toMatch(/^token-\d+$/u);
      }
    },
  );

  test.each([
    ["a proxy's page", { rejected: false }, "the reply was 503; is https://127.0.0.1"],
    ["no token", { rejected: false }, "the reply was 200 without a token; is https://127.0.0.1"],
    [
      "an assertion that has expired",
      { rejected: true },
      "AADSTS700024: Client assertion has expired, also [secret]; check",
    ],
  ])("is described: %s", async (name, kind, text) => {
    const credential = await endpoint.credential(secretIdentity, timeoutMs);
    endpoint.faults.push(...Array.from({ length: maxRequests }, () => faults[name] ?? (() => Response.error())));
    const error = await errorOf(credential.getToken(scope));
    endpoint.faults.length = 0;
    expect(error).toMatchObject(kind);
    expect(String(error)).toContain(`no Azure token for client-secret: ${text}`);
  });

  test("a login service that fails by never replying is given up after the time limit, once", async () => {
    const credential = await endpoint.credential(secretIdentity, 300);
    const release = Promise.withResolvers<Response>();
    endpoint.faults.push(() => release.promise);
    const before = endpoint.forms.length;
    const error = await errorOf(credential.getToken(scope));
    expect(String(error)).toContain("no answer within 0.3 s; is https://127.0.0.1");
    expect(endpoint.forms.length - before).toBe(1);
    release.resolve(new Response());
    expect((await credential.getToken(scope))?.token).toMatch(/^token-/u);
  });
});

describe("workload identity", () => {
  test("workload identity whose token is missing is described by the file, not by an earlier reply", async () => {
    const tokenFile = join(folder, "missing-token");
    const identity = { kind: "workload-identity", tenantId: "t", clientId: "c", tokenFile } as const;
    const credential = await endpoint.credential(identity);
    const error = String(await errorOf(credential.getToken(scope)));
    expect(error).toContain(tokenFile);
    expect(error).not.toContain("the reply was");
  });

  test("sends the token in the file, and once its own token has expired, that of the rotated file", async () => {
    const tokenFile = join(folder, "token");
    await writeFile(tokenFile, "first");
    const credential = await endpoint.credential({
      kind: "workload-identity",
      tenantId: "t",
      clientId: "c",
      tokenFile,
    });
    const first = await credential.getToken(scope);
    expect(lastForm()).toMatchObject({ client_assertion: "first", client_id: "c" });
    await writeFile(tokenFile, "second");
    expect((await credential.getToken(scope))?.token).toBe(first?.token ?? "");
    const later = await anHourLater(() => credential.getToken(scope));
    expect(later?.token).not.toBe(first?.token ?? "");
    expect(lastForm()["client_assertion"]).toBe("second");
  });
});

describe("a managed identity", () => {
  test.each([
    ["of the system", { kind: "managed-identity" }, {}],
    ["by client id", { kind: "managed-identity", clientId: "mine" }, { client_id: "mine" }],
    [
      "by resource id",
      { kind: "managed-identity", resourceId: "/subscriptions/s/x" },
      { msi_res_id: "/subscriptions/s/x" },
    ],
  ] as const)("%s sends its request to the metadata service of the VM", async (_name, identity, query) => {
    const credential = await endpoint.credential(identity);
    expect((await credential.getToken(scope))?.token).toBe(`vm-token-${endpoint.metadataQueries.length}`);
    const sent = Object.fromEntries(endpoint.metadataQueries.at(-1) ?? []);
    expect(sent).toMatchObject({ resource: "https://management.example", ...query });
  });

  test("keeps its token until it expires, and then requests another one", async () => {
    const credential = await endpoint.credential({ kind: "managed-identity", clientId: "rotating" });
    const first = await credential.getToken(scope);
    expect((await credential.getToken(scope))?.token).toBe(first?.token ?? "");
    const later = await anHourLater(() => credential.getToken(scope));
    expect(later?.token).toBe(`vm-token-${endpoint.metadataQueries.length}`);
    expect(later?.token).not.toBe(first?.token ?? "");
  });
});

/** A self-signed RSA certificate with its key, as Entra ID accepts it. */
async function rsaCertificate() {
  await import("reflect-metadata");
  const x509 = await import("@peculiar/x509");
  const algorithm = {
    name: "RSASSA-PKCS1-v1_5",
    hash: "SHA-256",
    publicExponent: new Uint8Array([1, 0, 1]),
    modulusLength: 2048,
  } as const;
  const keys = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: "01",
    name: "CN=service principal",
    notBefore: new Date(Date.now() - 60_000),
    notAfter: new Date(Date.now() + 3_600_000),
    keys,
    signingAlgorithm: algorithm,
  });
  const key = await crypto.subtle.exportKey("pkcs8", keys.privateKey);
  return {
    privateKey: x509.PemConverter.encode(key, "PRIVATE KEY"),
    certificate: certificate.toString("pem"),
    der: new Uint8Array(certificate.rawData),
  };
}
