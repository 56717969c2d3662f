import { createPrivateKey } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** A certificate authority of one server, and the certificate that it serves with; all in PEM. */
export interface ServingCertificate {
  readonly ca: string;
  readonly certificate: string;
  readonly key: string;
}

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
const yearMs = 365 * 24 * 60 * 60 * 1000;

/** Created once per process and shared by all servers in it. */
let inMemory: Promise<ServingCertificate> | undefined;

/** The certificate in `directory`, created on first use; without a directory one in memory. */
export async function servingCertificate(directory: string | undefined): Promise<ServingCertificate> {
  if (directory === undefined) return (inMemory ??= makeCertificate());
  const files = { ca: "ca.crt", certificate: "tls.crt", key: "tls.key" } as const;
  const read = (name: string): Promise<string> => readFile(join(directory, name), "utf8");
  try {
    const [ca, certificate, key] = await Promise.all([read(files.ca), read(files.certificate), read(files.key)]);
    return { ca, certificate, key };
  } catch {
    const created = await makeCertificate();
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, files.ca), created.ca);
    await writeFile(join(directory, files.certificate), created.certificate);
    await writeFile(join(directory, files.key), created.key, { mode: 0o600 });
    return created;
  }
}

async function makeCertificate(): Promise<ServingCertificate> {
  await import("reflect-metadata");
  const x509 = await import("@peculiar/x509");
  const validity = { notBefore: new Date(Date.now() - 60_000), notAfter: new Date(Date.now() + yearMs) };
  const caKeys = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const keys = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const ca = await x509.X509CertificateGenerator.createSelfSigned({
    ...validity,
    name: "CN=sandbox-ca",
    keys: caKeys,
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
      await x509.SubjectKeyIdentifierExtension.create(caKeys.publicKey),
    ],
  });
  const certificate = await x509.X509CertificateGenerator.create({
    ...validity,
    subject: "CN=kube-apiserver",
    issuer: ca.subject,
    publicKey: keys.publicKey,
    signingKey: caKeys.privateKey,
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      await x509.AuthorityKeyIdentifierExtension.create(caKeys.publicKey),
      new x509.SubjectAlternativeNameExtension([
        { type: "ip", value: "127.0.0.1" },
        { type: "dns", value: "localhost" },
        { type: "dns", value: "kubernetes.default.svc" },
      ]),
    ],
  });
  return {
    ca: ca.toString("pem"),
    certificate: certificate.toString("pem"),
    key: await privateKeyPem(keys.privateKey),
  };
}

async function privateKeyPem(privateKey: CryptoKey): Promise<string> {
  const der = Buffer.from(await crypto.subtle.exportKey("pkcs8", privateKey));
  return createPrivateKey({ key: der, format: "der", type: "pkcs8" }).export({ type: "pkcs8", format: "pem" });
}
