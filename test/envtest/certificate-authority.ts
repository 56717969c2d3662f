import "reflect-metadata";

import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  type Extension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from "@peculiar/x509";

import type { KeyPair } from "../../host/process/serving/self-signed.ts";

/** Issues certificates for the tests. Whatever it issues is valid for a day from an hour ago. */
export interface CertificateAuthority extends KeyPair {
  /** A client certificate as the API server reads it: CN is the user, each O a group. */
  issueClient(user: string, groups?: readonly string[], uids?: readonly string[]): Promise<KeyPair>;
  /** A serving certificate for DNS names and IP addresses. */
  issueServer(names: readonly string[]): Promise<KeyPair>;
}

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const hourMs = 3_600_000;
/** Kubernetes' own object identifier for a user's UID. */
const uidId = "1.3.6.1.4.1.57683.2";

const validity = (): { notBefore: Date; notAfter: Date } => ({
  notBefore: new Date(Date.now() - hourMs),
  notAfter: new Date(Date.now() + 24 * hourMs),
});

const generateKeys = (): Promise<CryptoKeyPair> => crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);

const pemOf = async (key: CryptoKey): Promise<string> =>
  `${PemConverter.encode(await crypto.subtle.exportKey("pkcs8", key), PemConverter.PrivateKeyTag)}\n`;

/** Makes a certificate authority with a key of its own. */
export async function createCertificateAuthority(name = "envtest-ca"): Promise<CertificateAuthority> {
  const keys = await generateKeys();
  const certificate = await X509CertificateGenerator.createSelfSigned({
    ...validity(),
    name: [{ CN: [name] }],
    keys,
    signingAlgorithm: algorithm,
    extensions: [
      new BasicConstraintsExtension(true, undefined, true),
      new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.digitalSignature, true),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return openCertificateAuthority({
    certPem: `${certificate.toString("pem")}\n`,
    keyPem: await pemOf(keys.privateKey),
  });
}

/** Opens an authority that was made before, in another process for one. */
export async function openCertificateAuthority(pair: KeyPair): Promise<CertificateAuthority> {
  const certificate = new X509Certificate(pair.certPem);
  const signingKey = await crypto.subtle.importKey("pkcs8", PemConverter.decodeFirst(pair.keyPem), algorithm, false, [
    "sign",
  ]);
  const issue = async (subject: Record<string, string[]>[], extensions: readonly Extension[]): Promise<KeyPair> => {
    const keys = await generateKeys();
    const issued = await X509CertificateGenerator.create({
      ...validity(),
      subject,
      issuer: certificate.subject,
      publicKey: keys.publicKey,
      signingKey,
      signingAlgorithm: algorithm,
      extensions: [
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        await AuthorityKeyIdentifierExtension.create(certificate.publicKey),
        ...extensions,
      ],
    });
    return { certPem: `${issued.toString("pem")}\n`, keyPem: await pemOf(keys.privateKey) };
  };
  return {
    ...pair,
    issueClient: (user, groups = [], uids = []) =>
      issue(
        [...groups.map((group) => ({ O: [group] })), ...uids.map((uid) => ({ [uidId]: [uid] })), { CN: [user] }],
        [new ExtendedKeyUsageExtension([ExtendedKeyUsage.clientAuth])],
      ),
    issueServer: (names) =>
      issue(
        [{ CN: [names[0] ?? "server"] }],
        [
          new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
          new SubjectAlternativeNameExtension(
            names.map((value) => ({ type: /^[\d.]+$|:/.test(value) ? "ip" : "dns", value })),
          ),
        ],
      ),
  };
}
