import { expect, setDefaultTimeout, test } from "bun:test";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { connect as connectHttp2 } from "node:http2";
import { join } from "node:path";
import { connect } from "node:tls";

import { type CertificateAuthority, createCertificateAuthority } from "../../envtest/certificate-authority.ts";
import { freePort } from "../../envtest/free-port.ts";
import { SandboxLab } from "../sandbox-lab.ts";

setDefaultTimeout(120_000);

/** The common name of the certificate that a host shows. */
async function shownBy(port: number, servername: string): Promise<string> {
  const socket = connect({ host: "127.0.0.1", port, servername, rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const { CN } = socket.getPeerCertificate().subject;
  socket.destroy();
  return [CN].flat().join();
}

async function write(
  folder: string,
  name: string,
  authority: CertificateAuthority,
): Promise<readonly [string, string]> {
  const { certPem, keyPem } = await authority.issueServer([name]);
  const files = [join(folder, "tls.crt"), join(folder, "tls.key")] as const;
  await Promise.all([writeFile(files[0], certPem), writeFile(files[1], keyPem)]);
  return files;
}

test("a running host shows a renewed certificate of --tls-cert-file, and that of --tls-sni-cert-key to its names", async () => {
  await using lab = await SandboxLab.open();
  const authority = await createCertificateAuthority();
  const named = await authority.issueServer(["named.test"]);
  const { folder } = lab.azure;
  const sni = [join(folder, "sni.crt"), join(folder, "sni.key")] as const;
  await Promise.all([writeFile(sni[0], named.certPem), writeFile(sni[1], named.keyPem)]);
  const [cert, key] = await write(folder, "first.test", authority);
  const port = freePort();
  const flags = [`--tls-cert-file=${cert}`, `--tls-private-key-file=${key}`, `--tls-sni-cert-key=${sni.join(",")}`];
  const host = lab.start({ port, flags });
  await host.until("it serves", () => true);
  expect(await shownBy(port, "any.test")).toBe("first.test");
  expect(await shownBy(port, "named.test")).toBe("named.test");
  await write(folder, "second.test", authority);
  await host.eventually(
    "the renewed certificate is shown",
    async () => (await shownBy(port, "any.test")) === "second.test",
  );
  expect(await shownBy(port, "named.test")).toBe("named.test");
});

test("a client of TLS 1.2 reaches a generated certificate with the only suite that --tls-cipher-suites names", async () => {
  await using lab = await SandboxLab.open();
  const port = freePort();
  const host = lab.start({ port, flags: ["--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"] });
  await host.until("it serves", () => true);
  const socket = connect({ host: "127.0.0.1", port, maxVersion: "TLSv1.2", rejectUnauthorized: false });
  await once(socket, "secureConnect");
  expect(socket.getCipher().name).toBe("ECDHE-RSA-AES128-GCM-SHA256");
  socket.destroy();
});

test("300 anonymous requests for unknown paths do not keep another client from its reply", async () => {
  await using lab = await SandboxLab.open({ allows: () => true });
  const port = freePort();
  const host = lab.start({
    port,
    flags: ["--authorization-always-allow-paths=/livez,/statusz", "--kube-api-qps=1", "--kube-api-burst=1"],
  });
  await host.until("it serves", () => true);
  const flood = [1, 2, 3].map(async (session) => {
    const client = connectHttp2(`https://127.0.0.1:${port}`, { rejectUnauthorized: false });
    client.on("error", () => undefined);
    const streams = Array.from({ length: 100 }, (_, i) => client.request({ ":path": `/x${session}-${i}` }));
    await Promise.allSettled(streams.map((stream) => once(stream.resume(), "close")));
    client.destroy();
  });
  const startedAt = performance.now();
  const token = lab.api.tokens.issueFor("monitoring", "prometheus", "1", Date.now() + 600_000);
  expect((await host.get("/metrics", { headers: { Authorization: `Bearer ${token}` } })).status).toBe(200);
  expect(performance.now() - startedAt).toBeLessThan(10_000);
  await Promise.all(flood);
  // Of each connection 16 are in progress; the others are refused.
  expect(lab.api.requests.count({ resource: "subjectaccessreviews" })).toBeGreaterThanOrEqual(3 * 16);
});

test("a host that cannot serve rejects with the port, and prepares nothing any more", async () => {
  await using lab = await SandboxLab.open();
  using taken = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data: () => undefined } });
  await expect(lab.host([`--secure-port=${taken.port}`])).rejects.toThrow(String(taken.port));
  const before = lab.azure.simulator.requests().length;
  // Longer than the pause in which a config settles.
  await Bun.sleep(1_000);
  expect(lab.azure.simulator.requests().length).toBe(before);
});

test.each(["--authentication-kubeconfig", "--authorization-kubeconfig"])(
  "%s that is not a kubeconfig file ends the start with the name of that flag",
  async (flag) => {
    await using lab = await SandboxLab.open();
    const file = join(lab.azure.folder, "other.kubeconfig");
    await writeFile(file, "hello");
    const host = lab.start({ flags: [`${flag}=${file}`] });
    await host.ended();
    expect(host.stderr).toContain(`Error: ${flag}=${file}: ${file} is not a kubeconfig file`);
  },
);
