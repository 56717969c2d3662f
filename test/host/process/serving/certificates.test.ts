import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { createHash, createPrivateKey, X509Certificate } from "node:crypto";
import { mkdtemp, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../../host/async/clock.ts";
import { createLogger } from "../../../../host/process/log/log.ts";
import { followCertificate, loadPair, openCertificate } from "../../../../host/process/serving/certificates.ts";
import { openNamedCertificates } from "../../../../host/process/serving/named-certificates.ts";
import { type KeyPair, selfSigned } from "../../../../host/process/serving/self-signed.ts";
import { rejection } from "../../../kit/rejection.ts";

let directory = "";
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "certificates-"));
});
afterEach(() => rm(directory, { recursive: true }));

const silent = createLogger({ format: "text", verbosity: 0, write: () => undefined });
const path = (name: string): string => join(directory, name);
const none = { certFile: "", keyFile: "", certDir: "", bindAddress: "0.0.0.0", clock: systemClock };

/** The serving certificate, and that of its CA. */
const pemsOf = ({ certPem }: KeyPair): readonly string[] =>
  certPem.split(/(?<=-----END CERTIFICATE-----)\n/).filter((pem) => pem !== "");

async function write(pair: KeyPair): Promise<{ certFile: string; keyFile: string }> {
  const files = { certFile: path("tls.crt"), keyFile: path("tls.key") };
  await writeFile(files.certFile, pair.certPem);
  await writeFile(files.keyFile, pair.keyPem);
  return files;
}

describe("a generated certificate", () => {
  test("is a leaf under its own CA, for localhost and the bound address, valid for a year from an hour ago", async () => {
    const now = Date.UTC(2030, 0, 1);
    const pair = await selfSigned("192.0.2.7", now);
    const { keyPem } = pair;
    const [leafPem = "", caPem = ""] = pemsOf(pair);
    const [leaf, ca] = [new X509Certificate(leafPem), new X509Certificate(caPem)];
    expect(leaf.subject).toBe(`CN=localhost@${now / 1000}`);
    expect(ca.subject).toBe(`CN=localhost-ca@${now / 1000}`);
    expect(ca.ca).toBeTrue();
    expect(leaf.ca).toBeFalse();
    expect(leaf.verify(ca.publicKey)).toBeTrue();
    expect(leaf.subjectAltName).toBe("DNS:localhost, IP Address:127.0.0.1, IP Address:192.0.2.7");
    expect(Date.parse(leaf.validFrom)).toBe(now - 3_600_000);
    expect(Date.parse(leaf.validTo)).toBe(now - 3_600_000 + 365 * 86_400_000);
    expect(leaf.keyUsage).toEqual(["1.3.6.1.5.5.7.3.1"]);
    expect(createPrivateKey(keyPem).asymmetricKeyType).toBe("ec");
    expect(leaf.checkPrivateKey(createPrivateKey(keyPem))).toBeTrue();
  });

  test("has an RSA key on request, for suites that need one", async () => {
    const { certPem, keyPem } = await selfSigned("", Date.now(), "rsa");
    expect(createPrivateKey(keyPem).asymmetricKeyDetails?.modulusLength).toBe(2048);
    expect(new X509Certificate(certPem).checkPrivateKey(createPrivateKey(keyPem))).toBeTrue();
  });

  test("has the extensions of a CA and of a server, as a strict parser reads them", async () => {
    await import("reflect-metadata");
    const { X509Certificate: Parsed } = await import("@peculiar/x509");
    const extensionsOf = (pem: string): string =>
      new Parsed(pem).toString("text").split(/ {4}Extensions:\n|  Signature:/)[1] ?? "";
    const idOf = (ca: string): string => {
      const point = new X509Certificate(ca).publicKey.export({ type: "spki", format: "der" }).subarray(-65);
      const id = createHash("sha1").update(point).digest("hex").match(/../g) ?? [];
      return `${id.slice(0, 8).join(" ")}  ${id.slice(8, 16).join(" ")}\n        ${id.slice(16).join(" ")}`;
    };
    const usages = { ecdsa: "digitalSignature", rsa: "digitalSignature, keyEncipherment" };
    for (const type of ["ecdsa", "rsa"] as const) {
      const [leaf = "", ca = ""] = pemsOf(await selfSigned("2001:db8::7", Date.now(), type));
      expect(extensionsOf(ca)).toBe(`      Basic Constraints: critical
        CA: true
      Key Usages: critical
        digitalSignature, keyCertSign
      Subject Key Identifier:
        ${idOf(ca)}
`);
      expect(extensionsOf(leaf)).toBe(`      Basic Constraints: critical
      Key Usages: critical
        ${usages[type]}
      Extended Key Usages:
        TLS WWW server authentication
      Authority Key Identifier:
        ${idOf(ca)}
      Subject Alternative Name:
        DNS: localhost
        IP: 127.0.0.1
        IP: 2001:db8::7
`);
      const serials = [ca, leaf].map((pem) => new X509Certificate(pem).serialNumber);
      expect(serials[0]).not.toBe(serials[1]);
    }
  });

  test("is verified by a client that trusts its CA", async () => {
    const pair = await selfSigned("127.0.0.1", Date.now());
    using server = Bun.serve({
      port: 0,
      tls: { cert: pair.certPem, key: pair.keyPem },
      fetch: () => new Response("ok"),
    });
    const get = (ca: string): Promise<Response> => fetch(`https://localhost:${server.port}`, { tls: { ca } });
    expect(await (await get(pemsOf(pair)[1] ?? "")).text()).toBe("ok");
    const [, stranger = ""] = pemsOf(await selfSigned("127.0.0.1", Date.now()));
    expect(await rejection(get(stranger))).toMatch("certificate");
  });

  test("is valid into the second half of the century, whose years have four digits", async () => {
    const now = Date.UTC(2049, 5, 1);
    const [leaf] = pemsOf(await selfSigned("", now)).map((pem) => new X509Certificate(pem));
    expect(Date.parse(leaf?.validFrom ?? "")).toBe(now - 3_600_000);
    expect(Date.parse(leaf?.validTo ?? "")).toBe(now - 3_600_000 + 365 * 86_400_000);
  });

  test("stays in memory when no directory is given", async () => {
    const opened = await openCertificate(none);
    expect(opened.files).toBeUndefined();
    expect(opened.pair.certPem).toContain("BEGIN CERTIFICATE");
  });

  test("is written to the directory, with the key readable by its owner only, and reused from there", async () => {
    const certDir = path("made/here");
    const first = await openCertificate({ ...none, certDir });
    expect((await stat(join(certDir, "cloud-controller-manager.key"))).mode & 0o777).toBe(0o600);
    const second = await openCertificate({ ...none, certDir });
    expect(second).toEqual(first);
    await rm(join(certDir, "cloud-controller-manager.key"));
    expect(await rejection(openCertificate({ ...none, certDir }))).toMatch(
      /manager\.crt can be read, but .*manager\.key/,
    );
  });
});

describe("certificate files", () => {
  test("are loaded as they are", async () => {
    const pair = await selfSigned("::", Date.now());
    const files = await write(pair);
    const flags = { cert: "--tls-cert-file", key: "--tls-private-key-file" };
    expect(await openCertificate({ ...none, ...files })).toEqual({ pair, files: { ...files, flags } });
  });

  test("are rejected with the name of the flag and the file", async () => {
    const [one, other] = await Promise.all([selfSigned("", Date.now()), selfSigned("", Date.now())]);
    expect(await rejection(openCertificate({ ...none, certFile: "x" }))).toMatch("must be given together");
    const files = await write({ ...one, keyPem: other.keyPem });
    expect(await rejection(loadPair(files))).toMatch(
      /key in .*tls\.key does not belong to the certificate in .*tls\.crt/,
    );
    expect(await rejection(loadPair({ ...files, keyFile: path("none") }))).toMatch(
      /--tls-private-key-file: .*none cannot be/,
    );
    await writeFile(files.certFile, " \n");
    expect(await rejection(loadPair(files))).toMatch(/--tls-cert-file: .*tls\.crt is empty/);
    await writeFile(files.certFile, "nothing of the kind");
    expect(await rejection(loadPair(files))).toMatch(/--tls-cert-file: .*tls\.crt holds no PEM certificate/);
    await write({ ...one, keyPem: "nothing of the kind" });
    expect(await rejection(loadPair(files))).toMatch(/--tls-private-key-file: .*tls\.key holds no unencrypted PEM/);
    const isCutOff = { ...one, certPem: `${one.certPem}${other.certPem.slice(0, other.certPem.length / 2)}` };
    expect(await rejection(loadPair(await write(isCutOff)))).toMatch(
      /--tls-cert-file: TLS cannot use the certificates in .*tls\.crt; one of them is cut off/,
    );
  });

  test("are rejected with the flag of the webhook server when they are its own", async () => {
    const [one, other] = await Promise.all([selfSigned("", Date.now()), selfSigned("", Date.now())]);
    const webhook = { ...none, flagPrefix: "--webhook-" } as const;
    expect(await rejection(openCertificate({ ...webhook, certFile: "x" }))).toMatch(
      "--webhook-tls-cert-file and --webhook-tls-private-key-file must be given together",
    );
    const files = await write({ ...one, keyPem: other.keyPem });
    expect(await rejection(openCertificate({ ...webhook, ...files }))).toMatch(
      /^--webhook-tls-private-key-file: the key in .*tls\.key does not belong/,
    );
    await rename(files.certFile, path("cloud-controller-manager.crt"));
    const inFolder = { ...webhook, certDir: directory };
    expect(await rejection(openCertificate(inFolder))).toMatch(/^--webhook-cert-dir: .*\.crt can be read, but/);
    await rename(files.keyFile, path("cloud-controller-manager.key"));
    expect(await rejection(openCertificate(inFolder))).toMatch(/^--webhook-cert-dir: the key in/);
    const entry = { certFile: path("none"), keyFile: path("none"), names: [] };
    const named = { clock: systemClock, log: silent, flag: "--webhook-tls-sni-cert-key" } as const;
    expect(await rejection(openNamedCertificates([entry], named))).toMatch(
      /^--webhook-tls-sni-cert-key: .*none cannot/,
    );
  });

  test("are reloaded by content: an invalid pair is ignored, a valid one is reported once", async () => {
    const [one, other] = await Promise.all([selfSigned("", Date.now()), selfSigned("", Date.now())]);
    const files = await write(one);
    const reported: KeyPair[] = [];
    const lines: string[] = [];
    const stop = new AbortController();
    const following = followCertificate({
      files,
      current: one,
      changed: (pair) => reported.push(pair),
      clock: systemClock,
      log: createLogger({ format: "text", verbosity: 0, write: (line) => lines.push(line) }),
      signal: stop.signal,
      periodMs: 2,
    });
    await writeFile(files.certFile, other.certPem);
    await eventually("the bad pair is noticed", () => lines.some((line) => line.includes("keeping the current one")));
    expect(reported).toEqual([]);
    await writeFile(path("next.key"), other.keyPem);
    await rename(path("next.key"), files.keyFile);
    await eventually("the good pair is reported", () => reported.length === 1);
    expect(reported).toEqual([other]);
    await writeFile(files.keyFile, await readFile(files.keyFile));
    await rm(files.certFile);
    await eventually("the missing file is noticed", () => lines.some((line) => line.includes("cannot be read")));
    await writeFile(files.certFile, one.certPem);
    await writeFile(files.keyFile, one.keyPem);
    await eventually("the restored pair is reported", () => reported.length === 2);
    stop.abort();
    await following;
  });
});
