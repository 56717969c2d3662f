import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { createPrivateKey, X509Certificate } from "node:crypto";
import { mkdtemp, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../../host/async/clock.ts";
import { createLogger } from "../../../../host/process/log/log.ts";
import { followCertificate, loadPair, openCertificate } from "../../../../host/process/serving/certificates.ts";
import { type KeyPair, selfSigned } from "../../../../host/process/serving/self-signed.ts";
import { rejection } from "../../../kit/rejection.ts";

let directory = "";
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "certificates-"));
});
afterEach(() => rm(directory, { recursive: true }));

const path = (name: string): string => join(directory, name);
const none = { certFile: "", keyFile: "", certDir: "", bindAddress: "0.0.0.0", clock: systemClock };

async function write(pair: KeyPair): Promise<{ certFile: string; keyFile: string }> {
  const files = { certFile: path("tls.crt"), keyFile: path("tls.key") };
  await writeFile(files.certFile, pair.certPem);
  await writeFile(files.keyFile, pair.keyPem);
  return files;
}

describe("a generated certificate", () => {
  test("is a leaf under its own CA, for localhost and the bound address, valid for a year from an hour ago", async () => {
    const now = Date.UTC(2030, 0, 1);
    const { certPem, keyPem } = await selfSigned("192.0.2.7", now);
    const [leafPem = "", caPem = ""] = certPem.split(/(?<=-----END CERTIFICATE-----)\n/);
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
    expect(await openCertificate({ ...none, ...files })).toEqual({ pair, files });
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
    expect(await rejection(loadPair(files))).toMatch("tls.crt holds no PEM certificate");
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
