import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { messageOf } from "cloud-controller-host/sdk";
import { manualClock } from "cloud-controller-host/sdk/testing";

import { type ApiServer, apiServerOf } from "../../../../host/kube/connection/credentials.ts";
import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { makeCertificate } from "../../../../plugins/azure-cloud/simulator/http/certificate.ts";
import { errorOf } from "../../../kit/rejection.ts";
import { pem, status, StubApi } from "../stub-api.ts";

let api: StubApi;
let directory = "";
beforeEach(async () => {
  api = await StubApi.start();
  directory = await mkdtemp(join(tmpdir(), "credentials-"));
});
afterEach(async () => {
  await api.stop();
  await rm(directory, { recursive: true });
});

const get = { method: "GET", path: "/api/v1/nodes" } as const;
const connect = (access: ApiServer) => createTransport(access, { userAgent: "test", qps: -1 });

const bearer = (token: string): string => `Bearer ${token}`;
const only = (token: string): void => {
  api.intercept = ({ headers }) =>
    headers["authorization"] === bearer(token) ? undefined : status(401, "Unauthorized", "Unauthorized");
};
const cluster = () => ({ name: "c", server: api.url, skipTLSVerify: false, caData: btoa(pem.ca) });

/** An exec plugin that issues a token per run: t1, t2 and so on. */
async function countingPlugin() {
  const plugin = join(directory, "plugin.sh");
  const count = join(directory, "count");
  const credential = { apiVersion: "client.authentication.k8s.io/v1", kind: "ExecCredential", status: { token: "tN" } };
  const output = JSON.stringify(credential).replace("tN", "t'$n'");
  await writeFile(plugin, `echo x >> ${count}\nn=$(wc -l < ${count} | tr -d ' ')\necho '${output}'\n`);
  const user = { name: "u", exec: { command: "sh", args: [plugin] } };
  return { user, runs: async () => (await Bun.file(count).text()).trim().split("\n").length };
}

describe("credentials", () => {
  test("credentials of a token file are read again at once when the server rejects them, for all requests together", async () => {
    const tokenFile = join(directory, "token");
    await writeFile(tokenFile, "old\n");
    const user = { name: "u", authProvider: { name: "tokenFile", config: { tokenFile } } };
    const transport = connect(apiServerOf(cluster(), user));
    only("old");
    await transport.send(get);
    await writeFile(tokenFile, "new\n");
    await transport.send(get);
    only("new");
    await Promise.all([transport.send(get), transport.send(get), transport.send(get)]);
    await transport.send(get);
    const tokens = api.requests.map(({ headers }) => headers["authorization"]);
    expect(tokens.slice(0, 2)).toEqual([bearer("old"), bearer("old")]);
    expect(tokens.at(-1)).toBe(bearer("new"));
    expect(tokens.filter((token) => token === bearer("new"))).toHaveLength(4);
  });

  test("credentials of a cloud vendor's auth provider come from client-node", async () => {
    const config = { "access-token": "vendor", expiry: new Date(Date.now() + 3_600_000).toISOString() };
    const user = { name: "u", authProvider: { name: "gcp", config } };
    only("vendor");
    await connect(apiServerOf(cluster(), user)).send(get);
    expect(api.requests.map(({ headers }) => headers["authorization"])).toEqual([bearer("vendor")]);
  });

  test("credentials of a cloud vendor's auth provider go to a plain HTTP server, too", async () => {
    const config = { "access-token": "vendor", expiry: new Date(Date.now() + 3_600_000).toISOString() };
    const user = { name: "u", authProvider: { name: "gcp", config } };
    const plain = { name: "c", server: "http://127.0.0.1:8001", skipTLSVerify: false };
    expect((await apiServerOf(plain, user).credentials()).headers).toEqual({ Authorization: bearer("vendor") });
  });

  test("credentials that stay rejected are tried twice and no more", async () => {
    const transport = connect(apiServerOf(cluster(), { name: "u", token: "wrong" }));
    only("right");
    expect(await errorOf(transport.send(get))).toMatchObject({
      status: 401,
      message: expect.stringMatching(/^Unauthorized; .* check the user in the kubeconfig/u),
    });
    expect(api.requests).toHaveLength(2);
  });

  test("may be a certificate, a password or an impersonation", async () => {
    const { cert, key } = pem;
    const withCertificate = { name: "u", certData: btoa(cert), keyData: btoa(key), impersonateUser: "jane" };
    await connect(apiServerOf(cluster(), withCertificate)).send(get);
    expect(api.requests[0]?.clientName).toStartWith("localhost@");
    expect(api.requests[0]?.headers["impersonate-user"]).toBe("jane");
    await connect(apiServerOf(cluster(), { name: "u", username: "joe", password: "pw" })).send(get);
    expect(api.requests[1]?.headers["authorization"]).toBe(`Basic ${btoa("joe:pw")}`);
    await connect(apiServerOf(cluster(), { name: "u", username: "joe" })).send(get);
    expect(api.requests[2]?.headers["authorization"]).toBe(`Basic ${btoa("joe:")}`);
  });

  test("come from an exec plugin, which runs again when they are rejected", async () => {
    const { user, runs } = await countingPlugin();
    const transport = connect(apiServerOf(cluster(), user));
    only("t1");
    await transport.send(get);
    only("t2");
    await transport.send(get);
    expect(await runs()).toBe(2);
  });

  test("rejected credentials of an exec plugin come from one more run for all requests, also once they are a minute old", async () => {
    const clock = manualClock();
    const { user, runs } = await countingPlugin();
    const access = apiServerOf(cluster(), user, { clock });
    const first = await access.credentials();
    const again = await Promise.all([1, 2, 3].map(() => access.credentials({ rejected: first })));
    expect(again.map(({ headers }) => headers["Authorization"])).toEqual(["t2", "t2", "t2"].map(bearer));
    await clock.advance(60_000);
    expect((await access.credentials()).headers["Authorization"]).toBe(bearer("t2"));
    await clock.advance(60_000);
    const [rejected] = again;
    expect((await access.credentials({ ...(rejected && { rejected }) })).headers["Authorization"]).toBe(bearer("t3"));
    expect(await runs()).toBe(3);
  });

  test("the files of a client certificate are read again after a minute, and what was read stays in use where they are gone", async () => {
    const clock = manualClock();
    const [certFile, keyFile] = [join(directory, "cert"), join(directory, "key")];
    await writeFile(certFile, pem.cert);
    await writeFile(keyFile, pem.key);
    const access = apiServerOf(cluster(), { name: "u", certFile, keyFile }, { clock });
    expect((await access.credentials()).tls).toMatchObject({ cert: pem.cert, key: pem.key });
    await writeFile(certFile, `${pem.cert}\n`);
    expect((await access.credentials()).tls.cert).toBe(pem.cert);
    await clock.advance(60_000);
    expect((await access.credentials()).tls.cert).toBe(`${pem.cert}\n`);
    await writeFile(certFile, `${pem.cert}\n\n`);
    await clock.advance(59_999);
    expect((await access.credentials()).tls.cert).toBe(`${pem.cert}\n`);
    await rm(certFile);
    await clock.advance(60_000);
    expect((await access.credentials()).tls.cert).toBe(`${pem.cert}\n`);
  });

  test("a certificate whose key is not replaced yet is not used: the pair that was read before stays in use", async () => {
    const clock = manualClock();
    const next = await makeCertificate();
    const [certFile, keyFile] = [join(directory, "cert"), join(directory, "key")];
    await writeFile(certFile, next.certificate);
    await writeFile(keyFile, pem.key);
    const access = apiServerOf(cluster(), { name: "u", certFile, keyFile }, { clock });
    expect(messageOf(await errorOf(access.credentials()))).toContain("the client certificate and its key do not match");
    await writeFile(certFile, pem.cert);
    expect((await access.credentials()).tls).toMatchObject({ cert: pem.cert, key: pem.key });
    await writeFile(certFile, next.certificate);
    await clock.advance(60_000);
    expect((await access.credentials()).tls).toMatchObject({ cert: pem.cert, key: pem.key });
    await writeFile(keyFile, next.key);
    await clock.advance(60_000);
    expect((await access.credentials()).tls).toMatchObject({ cert: next.certificate, key: next.key });
  });

  test("a certificate and a key that cannot be parsed are left to TLS", async () => {
    const user = { name: "u", certData: btoa("a certificate"), keyData: btoa("a key") };
    expect((await apiServerOf(cluster(), user).credentials()).tls).toMatchObject({ cert: "a certificate" });
  });

  test("a token file that is empty for a moment does not make requests anonymous: the token before stays in use", async () => {
    const clock = manualClock();
    const tokenFile = join(directory, "token");
    const user = { name: "u", authProvider: { name: "tokenFile", config: { tokenFile } } };
    const access = apiServerOf(cluster(), user, { clock });
    await writeFile(tokenFile, "\n");
    expect(messageOf(await errorOf(access.credentials()))).toContain(`read empty token from file "${tokenFile}"`);
    await writeFile(tokenFile, "t1");
    await access.credentials();
    await writeFile(tokenFile, "");
    await clock.advance(60_000);
    expect((await access.credentials()).headers["Authorization"]).toBe(bearer("t1"));
    await writeFile(tokenFile, "t2");
    await clock.advance(60_000);
    expect((await access.credentials()).headers["Authorization"]).toBe(bearer("t2"));
  });

  test("credentials of a plugin with invalid output fail without quoting it", async () => {
    const user = { name: "jane", exec: { command: "echo", args: ["top-secret-token"] } };
    const error = await errorOf(connect(apiServerOf(cluster(), user)).send(get));
    expect(error).toMatchObject({
      code: "Credentials",
      message: `cannot get credentials for ${api.url}: the credential plugin of user "jane" printed something other than an ExecCredential in JSON`,
    });
    expect(Bun.inspect(error)).not.toContain("top-secret");
  });

  test("credentials that cannot be read fail the request, and work again once they can", async () => {
    const tokenFile = join(directory, "token");
    const user = { name: "u", authProvider: { name: "tokenFile", config: { tokenFile } } };
    const transport = connect(apiServerOf(cluster(), user));
    expect(await errorOf(transport.send(get))).toMatchObject({
      code: "Credentials",
      message: expect.stringContaining(tokenFile),
    });
    await writeFile(tokenFile, "now");
    await transport.send(get);
    expect(api.requests[0]?.headers["authorization"]).toBe(bearer("now"));
  });
});
