/** A certificate authority, and the serving certificate that it signed. All PEM. */
export interface ServingCertificate {
  readonly ca: string;
  readonly certificate: string;
  readonly key: string;
}

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;
const dayMs = 86_400_000;

/** For loopback names only, valid for a year. */
export async function makeCertificate(): Promise<ServingCertificate> {
  await import("reflect-metadata");
  const x509 = await import("@peculiar/x509");
  x509.cryptoProvider.set(crypto);
  const [authority, server] = await Promise.all([makeKeys(), makeKeys()]);
  const validity = { notBefore: new Date(Date.now() - dayMs), notAfter: new Date(Date.now() + 365 * dayMs) };
  const ca = await x509.X509CertificateGenerator.createSelfSigned({
    ...validity,
    serialNumber: "01",
    name: "CN=Simulated Azure Resource Manager CA",
    keys: authority,
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
    ],
  });
  const certificate = await x509.X509CertificateGenerator.create({
    ...validity,
    serialNumber: "02",
    subject: "CN=Simulated Azure Resource Manager",
    issuer: ca.subject,
    publicKey: server.publicKey,
    signingKey: authority.privateKey,
    signingAlgorithm: algorithm,
    extensions: [
      new x509.SubjectAlternativeNameExtension([
        { type: "ip", value: "127.0.0.1" },
        { type: "ip", value: "::1" },
        { type: "dns", value: "localhost" },
      ]),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
    ],
  });
  const key = await crypto.subtle.exportKey("pkcs8", server.privateKey);
  return {
    ca: ca.toString("pem"),
    certificate: certificate.toString("pem"),
    key: x509.PemConverter.encode(key, "PRIVATE KEY"),
  };
}

let ofProcess: Promise<ServingCertificate> | undefined;

/** The certificate of all simulators of this process: a client that trusts one of them has parsed its authority for all. */
export const processCertificate = (): Promise<ServingCertificate> => (ofProcess ??= makeCertificate());

const makeKeys = (): Promise<CryptoKeyPair> => crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
