import { type KeyObject, X509Certificate } from "node:crypto";

import { CodedError } from "cloud-controller-host/sdk";

import type { PeerCertificate } from "../serving/peer.ts";

/** The user that a client certificate names: CN is the user name, each O a group. upstream: `x509.CommonNameUserConversion`. */
export interface CertificateSubject {
  readonly commonName: string | undefined;
  readonly organizations: readonly string[];
  readonly uids: readonly string[];
}

/** The fields of a certificate that chain verification reads. */
export interface Certificate {
  readonly user: CertificateSubject;
  /** DER names, in hex: two names are the same when their bytes are. */
  readonly subject: string;
  readonly issuer: string;
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
  readonly isAuthority: boolean;
  /** The number of intermediates allowed between this authority and the leaf. */
  readonly pathLength: number;
  /** Object identifiers; empty allows every usage. */
  readonly extendedUsages: readonly string[];
  readonly hasNameConstraints: boolean;
  readonly hasAlternativeNames: boolean;
  /** The reason why no chain may contain it, whatever its issuer. */
  readonly defect: string | undefined;
  readonly publicKey: KeyObject;
  readonly fingerprint: string;
  isSignedBy(issuer: Certificate): boolean;
}

/** Kubernetes' own object identifier for a user's UID. */
const uidId = "1.3.6.1.4.1.57683.2";

const ids = {
  keyUsage: "2.5.29.15",
  alternativeNames: "2.5.29.17",
  basicConstraints: "2.5.29.19",
  nameConstraints: "2.5.29.30",
  extendedKeyUsage: "2.5.29.37",
} as const;

/** Extensions that are handled here. Any other critical one makes a certificate invalid (RFC 5280, section 4.2). */
const understood = new Set<string>([...Object.values(ids), "2.5.29.14", "2.5.29.35"]);

const strongHashes = new Set(["SHA-256", "SHA-384", "SHA-512"]);

const parsed = new WeakMap<PeerCertificate, Promise<ParsedPeer>>();

/** A client's leaf certificate and its intermediates, in the order sent. */
export interface ParsedPeer {
  readonly leaf: Certificate;
  readonly intermediates: readonly Certificate[];
}

/** Parses a client's certificates, once per connection. An intermediate that cannot be parsed is left out, as in Go. */
export function parsePeer(peer: PeerCertificate): Promise<ParsedPeer> {
  const known = parsed.get(peer);
  if (known !== undefined) return known;
  const parsing = (async () => {
    const settled = await Promise.allSettled(peer.intermediates.map(parseCertificate));
    const intermediates = settled.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    return { leaf: await parseCertificate(peer.raw), intermediates };
  })();
  parsed.set(peer, parsing);
  return parsing;
}

/** A stranger's thousands of extensions cost a millisecond per 2 KB. Certificates in use are below 10 KB. */
const maxCertificateBytes = 32 * 1_024;

/** Parses a DER certificate; rejects with `InvalidCertificate`. The library is loaded with the first certificate. */
export async function parseCertificate(der: Uint8Array): Promise<Certificate> {
  if (der.byteLength > maxCertificateBytes)
    throw new CodedError("InvalidCertificate", `the certificate has more than ${maxCertificateBytes} bytes`);
  await import("reflect-metadata");
  const x509 = await import("@peculiar/x509");
  try {
    const openssl = new X509Certificate(der);
    const certificate = new x509.X509Certificate(new Uint8Array(der));
    const { subjectName, issuerName, extensions } = certificate;
    const basic = certificate.getExtension(x509.BasicConstraintsExtension);
    const usages = certificate.getExtension(x509.KeyUsagesExtension)?.usages ?? 0;
    const maySign = usages === 0 || (usages & x509.KeyUsageFlags.keyCertSign) !== 0;
    const has = (id: string): boolean => extensions.some(({ type }) => type === id);
    const unknown = extensions.find(({ type, critical }) => critical && !understood.has(type));
    return {
      user: {
        commonName: subjectName.getField("CN").at(-1),
        organizations: subjectName.getField("O"),
        uids: subjectName.getField(uidId),
      },
      subject: hex(subjectName.toArrayBuffer()),
      issuer: hex(issuerName.toArrayBuffer()),
      notBeforeMs: certificate.notBefore.getTime(),
      notAfterMs: certificate.notAfter.getTime(),
      isAuthority: basic?.ca === true && maySign,
      pathLength: basic?.pathLength ?? Number.POSITIVE_INFINITY,
      extendedUsages: certificate.getExtension(x509.ExtendedKeyUsageExtension)?.usages.map(String) ?? [],
      hasNameConstraints: has(ids.nameConstraints),
      hasAlternativeNames: has(ids.alternativeNames),
      defect:
        unknown === undefined
          ? weakness(certificate.signatureAlgorithm)
          : `it has the unknown critical extension ${unknown.type}`,
      publicKey: openssl.publicKey,
      fingerprint: openssl.fingerprint256,
      isSignedBy: (issuer) => openssl.verify(issuer.publicKey),
    };
  } catch (error) {
    throw new CodedError("InvalidCertificate", "the certificate is not valid DER", { cause: error });
  }
}

interface SignatureAlgorithm {
  readonly name?: string;
  readonly hash?: { readonly name?: string };
}

/** upstream: `x509.InsecureAlgorithmError`. */
function weakness({ name = "an unknown algorithm", hash }: SignatureAlgorithm): string | undefined {
  const strong = name === "Ed25519" || name === "EdDSA" || strongHashes.has(hash?.name ?? "");
  return strong ? undefined : `its signature uses ${hash?.name ?? name}, which is not accepted`;
}

const hex = (bytes: ArrayBuffer): string => Buffer.from(bytes).toString("hex");
