import "reflect-metadata";

import { BasicConstraintsExtension, Extension, PemConverter, X509CertificateGenerator } from "@peculiar/x509";

import type { KeyPair } from "../../host/process/serving/self-signed.ts";

/** A self-signed certificate of some 80 KB, near the most that TLS accepts, with 8,000 extensions that nothing knows. */
export async function manyExtensions(): Promise<KeyPair> {
  const { name, namedCurve } = { name: "ECDSA", namedCurve: "P-256" };
  const keys = await crypto.subtle.generateKey({ name, namedCurve }, true, ["sign", "verify"]);
  const extensions = Array.from({ length: 8_000 }, (_, i) => new Extension(`1.3.${i}`, false, new Uint8Array()));
  const signingAlgorithm = { name, hash: "SHA-256" };
  const issued = await X509CertificateGenerator.createSelfSigned({ name: "CN=x", keys, signingAlgorithm, extensions });
  const key = await crypto.subtle.exportKey("pkcs8", keys.privateKey);
  return { certPem: issued.toString("pem"), keyPem: PemConverter.encode(key, PemConverter.PrivateKeyTag) };
}

const algorithm = { name: "ECDSA", namedCurve: "P-521", hash: "SHA-512" };

/** A leaf and eight self-signed CA certificates of one subject and one large key: 8·7·6·5·… possible chains. */
export async function eightIntermediates(): Promise<KeyPair> {
  const [keys, leafKeys] = await Promise.all(
    [1, 2].map(() => crypto.subtle.generateKey(algorithm, true, ["sign", "verify"])),
  );
  if (keys === undefined || leafKeys === undefined) throw new Error("no keys");
  const issued = (ca: boolean, publicKey: CryptoKey): Promise<{ toString(format: "pem"): string }> =>
    X509CertificateGenerator.create({
      subject: "CN=x",
      issuer: "CN=x",
      publicKey,
      signingKey: keys.privateKey,
      signingAlgorithm: algorithm,
      extensions: [new BasicConstraintsExtension(ca, undefined, true)],
    });
  const chain = await Promise.all([
    issued(false, leafKeys.publicKey),
    ...Array.from({ length: 8 }, () => issued(true, keys.publicKey)),
  ]);
  const key = await crypto.subtle.exportKey("pkcs8", leafKeys.privateKey);
  return {
    certPem: chain.map((one) => `${one.toString("pem")}\n`).join(""),
    keyPem: PemConverter.encode(key, PemConverter.PrivateKeyTag),
  };
}
