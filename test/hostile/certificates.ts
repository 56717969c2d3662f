import "reflect-metadata";

import { BasicConstraintsExtension, PemConverter, X509CertificateGenerator } from "@peculiar/x509";

import type { KeyPair } from "../../host/process/serving/self-signed.ts";

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
