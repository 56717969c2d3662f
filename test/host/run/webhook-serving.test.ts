import { beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { connect as connectTcp, type Socket } from "node:net";
import { join } from "node:path";
import { connect } from "node:tls";

import { eventually } from "cloud-controller-host/sdk/testing";

import type { RunningHost } from "../../../host/host.ts";
import { type CertificateAuthority, createCertificateAuthority } from "../../envtest/certificate-authority.ts";
import { freePort } from "../../envtest/free-port.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

const source = (name: string): string => `import { defineWebhook } from "cloud-controller-host/sdk";
export default defineWebhook({
  name: "${name}",
  path: "/${name}",
  rules: [{ apiGroups: [""], apiVersions: ["v1"], resources: ["configmaps"], operations: ["CREATE"] }],
  async admit({ name }) {
    if (name === "slow") await Bun.sleep(1_500);
    if (name === "broken") throw new Error("connecting to db.internal with password hunter2 failed");
    return { allowed: true };
  },
});
`;

interface Served extends AsyncDisposable {
  readonly port: number;
  readonly host: RunningHost;
  readonly log: readonly string[];
  readonly folder: string;
  send(path: string, name?: string, tls?: object): Promise<{ readonly status: number; readonly text: string }>;
}

/** Two webhooks, `first` and `second`, served on a free port. */
async function open(flags: (folder: string) => readonly string[] | Promise<readonly string[]>): Promise<Served> {
  await using opening = new AsyncDisposableStack();
  const lab = opening.use(await SandboxLab.open());
  await lab.plugin("first", source("first"));
  const directory = await lab.plugin("second", source("second"));
  const port = freePort();
  const { log, host } = await lab.host([
    directory,
    "--feature-gates=CloudControllerManagerWebhook=true",
    "--webhook-bind-address=127.0.0.1",
    `--webhook-secure-port=${port}`,
    ...(await flags(lab.azure.folder)),
  ]);
  const send: Served["send"] = async (path, name = "x", tls = {}) => {
    const reply = await fetch(`https://127.0.0.1:${port}${path}`, {
      method: "POST",
      keepalive: false,
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        apiVersion: "admission.k8s.io/v1",
        kind: "AdmissionReview",
        request: { uid: "1", name, object: {} },
      }),
      tls: { rejectUnauthorized: false, ...tls },
    });
    return { status: reply.status, text: await reply.text() };
  };
  await eventually("a generation stands by", async () => (await send("/first")).status !== 503, 40_000);
  const stack = opening.move();
  return { port, host, log, folder: lab.azure.folder, send, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

test("a webhook port that another process has is an error that names its flag", async () => {
  using taken = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => undefined } });
  await expect(open(() => ["--webhooks=*", `--webhook-secure-port=${taken.port}`])).rejects.toThrow(
    `--webhook-secure-port: 127.0.0.1:${taken.port} is already in use by another process`,
  );
});

test("a webhook that is loaded and not enabled is not served", async () => {
  await using served = await open(() => ["--webhooks=first"]);
  expect((await served.send("/first")).status).toBe(200);
  expect((await served.send("/second")).status).toBe(404);
});

test("a webhook's error is logged, and its client gets a fixed text", async () => {
  await using served = await open(() => ["--webhooks=*"]);
  expect(await served.send("/first", "broken")).toEqual({ status: 500, text: "the webhook failed; see the log\n" });
  expect(served.log.join("")).toContain("connecting to db.internal");
});

let [clients, strangers]: CertificateAuthority[] = [];
beforeAll(async () => {
  [clients, strangers] = await Promise.all([createCertificateAuthority("clients"), createCertificateAuthority("x")]);
});

const review = (name: string): string => {
  const body = JSON.stringify({
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: { uid: "1", name },
  });
  return `POST /first HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
};

/** Sends a request over a connection that stays open; returns the first line of its reply, none when it is closed. */
async function exchanged(socket: Socket, request: string): Promise<string> {
  if (socket.closed) return "";
  const replied = Promise.race([once(socket, "data"), once(socket, "close")]);
  socket.write(request);
  const [chunk]: unknown[] = await replied;
  return String(chunk).split("\r\n", 1).join();
}

test("the connection of a client with a certificate is kept when strangers open more than an address may have", async () => {
  const pair = await clients?.issueClient("kube-apiserver");
  await using served = await open(async (folder) => {
    const bundle = join(folder, "webhook-clients.crt");
    await writeFile(bundle, clients?.certPem ?? "");
    return ["--webhooks=*", `--webhook-client-ca-file=${bundle}`];
  });
  const at = { host: "127.0.0.1", port: served.port };
  const known = connect({ ...at, rejectUnauthorized: false, cert: pair?.certPem, key: pair?.keyPem });
  await once(known, "secureConnect");
  await eventually(
    "a generation stands by",
    async () => (await exchanged(known, review("x"))) === "HTTP/1.1 200 OK",
    40_000,
  );
  const crowd: Socket[] = [];
  for (let count = 0; count < 70; count++) {
    const socket = connectTcp(at)
      .on("error", () => undefined)
      .resume();
    crowd.push(socket);
    await once(socket, "connect");
  }
  await eventually("the oldest stranger is cut off", () => crowd[0]?.closed === true);
  expect([known.closed, await exchanged(known, review("x"))]).toEqual([false, "HTTP/1.1 200 OK"]);
  for (const socket of [known, ...crowd]) socket.destroy();
});

test("a stop answers the webhook request in flight, and cuts off or refuses those that come after it", async () => {
  await using served = await open(() => ["--webhooks=*"]);
  const at = { host: "127.0.0.1", port: served.port, rejectUnauthorized: false };
  const [slow, idle, silent] = [connect(at), connect(at), connect(at)];
  for (const socket of [slow, idle, silent]) {
    socket.on("error", () => undefined).resume();
    await once(socket, "secureConnect");
  }
  silent.write(review("x").slice(0, -5));
  expect(await exchanged(idle, review("x"))).toBe("HTTP/1.1 200 OK");
  const answered = exchanged(slow, review("slow"));
  await Bun.sleep(300);
  const began = performance.now();
  served.host.stop();
  const late = eventually(
    "no request is taken",
    async () => (await served.send("/first").catch(() => undefined)) === undefined,
  );
  idle.write(review("x"));
  expect(await answered).toBe("HTTP/1.1 200 OK");
  await late;
  await served.host.finished;
  // Requests in flight have 5 s.
  expect(performance.now() - began).toBeLessThan(15_000);
  await eventually("all connections are closed", () => [slow, idle, silent].every(({ closed }) => closed));
});

test("only clients with a certificate from that CA are served with --webhook-client-ca-file", async () => {
  await using served = await open(async (folder) => {
    const bundle = join(folder, "webhook-clients.crt");
    await writeFile(bundle, clients?.certPem ?? "");
    return ["--webhooks=*", `--webhook-client-ca-file=${bundle}`];
  });
  const presenting = async (authority: CertificateAuthority | undefined): Promise<object> => {
    const pair = await authority?.issueClient("kube-apiserver");
    return { cert: pair?.certPem, key: pair?.keyPem };
  };
  expect(await served.send("/first")).toEqual({ status: 401, text: "a client certificate is required\n" });
  const stranger = await served.send("/first", "broken", await presenting(strangers));
  expect(stranger).toEqual({ status: 401, text: "the client certificate is not trusted\n" });
  expect(served.log.join("")).toContain("Unable to authenticate the webhook's client");
  expect(served.log.join("")).not.toContain("hunter2");
  const own = await presenting(clients);
  // Certificates are checked before the first generation is there.
  await eventually("a client of the CA is served", async () => (await served.send("/first", "x", own)).status === 200);
  await writeFile(join(served.folder, "webhook-clients.crt"), strangers?.certPem ?? "");
  const other = await presenting(strangers);
  await eventually("the changed file is in use", async () => (await served.send("/first", "x", other)).status === 200);
  expect((await served.send("/first", "x", await presenting(clients))).status).toBe(401);
});

test("an unreadable --webhook-client-ca-file is refused with the flag's name", async () => {
  const opening = open(() => ["--webhooks=*", "--webhook-client-ca-file=/nowhere/ca.crt"]);
  await expect(opening).rejects.toThrow("--webhook-client-ca-file: cannot read /nowhere/ca.crt");
});
