import { createPrivateKey } from "node:crypto";
import { isIP } from "node:net";

/** A certificate (leaf first, then its chain) and its private key, both PEM. */
export interface KeyPair {
  readonly certPem: string;
  readonly keyPem: string;
}

/**
 * Keys by type. upstream has RSA only; a P-256 key takes a fraction of the 0.1 to 0.5 s that two RSA keys take.
 */
const algorithms = {
  ecdsa: { name: "ECDSA", namedCurve: "P-256" },
  rsa: {
    name: "RSASSA-PKCS1-v1_5",
    hash: "SHA-256",
    publicExponent: new Uint8Array([1, 0, 1]),
    modulusLength: 2048,
  },
} as const;

/** Type of the serving certificate's key. The CA's is always ECDSA. */
export type KeyType = keyof typeof algorithms;

/** Input of the thread that creates a certificate. */
export interface SelfSignedRequest {
  readonly bindAddress: string;
  /** In milliseconds since the epoch. */
  readonly nowMs: number;
  readonly keyType: KeyType | undefined;
}

const signingAlgorithm = { name: "ECDSA", hash: "SHA-256" };

const hourMs = 3_600_000;
const yearMs = 365 * 24 * hourMs;

/**
 * Creates a CA and a serving certificate, valid for one year from an hour ago, for `localhost`, `127.0.0.1` and the bind
 * address. Source: client-go `util/cert`.
 */
export async function selfSigned(bindAddress: string, nowMs: number, keyType: KeyType = "ecdsa"): Promise<KeyPair> {
  await import("reflect-metadata");
  const x509 = await import("@peculiar/x509");
  const [authorityKeys, leafKeys] = await Promise.all([generate("ecdsa"), generate(keyType)]);
  const seconds = Math.floor(nowMs / 1000);
  const validity = { notBefore: new Date(nowMs - hourMs), notAfter: new Date(nowMs - hourMs + yearMs) };
  const authorityName = `CN=localhost-ca@${seconds}`;
  const { KeyUsageFlags: usage } = x509;
  const authority = await x509.X509CertificateGenerator.createSelfSigned({
    ...validity,
    name: authorityName,
    keys: authorityKeys,
    signingAlgorithm,
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(usage.keyCertSign | usage.digitalSignature, true),
      await x509.SubjectKeyIdentifierExtension.create(authorityKeys.publicKey),
    ],
  });
  const leaf = await x509.X509CertificateGenerator.create({
    ...validity,
    subject: `CN=localhost@${seconds}`,
    issuer: authorityName,
    publicKey: leafKeys.publicKey,
    signingKey: authorityKeys.privateKey,
    signingAlgorithm,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      keyType === "rsa"
        ? new x509.KeyUsagesExtension(usage.digitalSignature | usage.keyEncipherment, true)
        : new x509.KeyUsagesExtension(usage.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      await x509.AuthorityKeyIdentifierExtension.create(authorityKeys.publicKey),
      new x509.SubjectAlternativeNameExtension(alternativeNames(bindAddress)),
    ],
  });
  const der = await crypto.subtle.exportKey("pkcs8", leafKeys.privateKey);
  const key = createPrivateKey({ key: Buffer.from(der), format: "der", type: "pkcs8" });
  return {
    certPem: `${leaf.toString("pem")}\n${authority.toString("pem")}\n`,
    keyPem: key.export({ type: "pkcs8", format: "pem" }),
  };
}

const generate = (type: KeyType): Promise<CryptoKeyPair> =>
  crypto.subtle.generateKey(algorithms[type], true, ["sign", "verify"]);

type AlternativeName = { readonly type: "dns" | "ip"; readonly value: string };

function alternativeNames(bindAddress: string): AlternativeName[] {
  const names: AlternativeName[] = [
    { type: "dns", value: "localhost" },
    { type: "ip", value: "127.0.0.1" },
  ];
  const unspecified = ["0.0.0.0", "::", "127.0.0.1", ""].includes(bindAddress);
  return isIP(bindAddress) === 0 || unspecified ? names : [...names, { type: "ip", value: bindAddress }];
}
