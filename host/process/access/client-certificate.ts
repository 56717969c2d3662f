import { createHash, X509Certificate } from "node:crypto";

import { type Clock, CodedError } from "cloud-controller-host/sdk";

import type { PeerCertificate } from "../serving/peer.ts";
import { type Chain, findChain } from "./certificate-chain.ts";
import type { Authenticator } from "./user.ts";
import { type Certificate, type CertificateSubject, parseCertificate, parsePeer } from "./x509.ts";

/** Each costs 0.3 ms without a turn for anything else, whenever a bundle is read. */
const maxCertificates = 1_000;

/** Splits a PEM bundle into DER; throws `InvalidCertificate` for none, too many, or an unreadable certificate. */
export function parseBundle(pem: string, origin: string): readonly Uint8Array[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  if (blocks.length === 0) throw new CodedError("InvalidCertificate", `${origin} contains no PEM certificate`);
  if (blocks.length > maxCertificates)
    throw new CodedError("InvalidCertificate", `${origin} has more than ${maxCertificates} certificates`);
  return blocks.map((block) => {
    try {
      return new X509Certificate(block).raw;
    } catch (error) {
      throw new CodedError("InvalidCertificate", `${origin} contains an unreadable certificate`, { cause: error });
    }
  });
}

/** Throws as `parseBundle` does. */
export type BundleCheck = (pem: string, origin: string) => void;

/** Checks bundles that are read again and again. A bundle is parsed only if its text differs from the last of its origin. */
export function createBundleCheck(): BundleCheck {
  const valid = new Map<string, string>();
  return (pem, origin) => {
    if (valid.get(origin) === pem) return;
    parseBundle(pem, origin);
    valid.set(origin, pem);
  };
}

/** A client certificate that a CA vouches for. */
export interface VerifiedCertificate {
  readonly subject: CertificateSubject;
  /** Milliseconds since 1970. */
  readonly expiresMs: number;
}

/**
 * Verifies client certificates against one bundle of CAs. The verdict of the TLS library (`socket.authorized`) is not
 * enough: it covers all CAs of the context, so it cannot tell a front proxy from a client, and it is as old as the
 * connection, while CAs change and certificates expire.
 */
export class CertificateVerifier {
  readonly #bundle: readonly Uint8Array[];
  readonly #clock: Clock;
  #roots: Promise<readonly Certificate[]> | undefined;
  /** Chains found and refusals, for as long as the connection lives. */
  readonly #verdicts = new WeakMap<PeerCertificate, Chain | Error>();

  constructor(bundle: readonly Uint8Array[], clock: Clock) {
    this.#bundle = bundle;
    this.#clock = clock;
  }

  /** Rejects with `UntrustedCertificate` and the reason, or with `InvalidCertificate`. */
  async verify(certificate: PeerCertificate): Promise<VerifiedCertificate> {
    const { leaf } = await parsePeer(certificate);
    const known = this.#verdicts.get(certificate);
    const verdict = known !== undefined && this.#isCurrent(known) ? known : await this.#judge(certificate);
    this.#verdicts.set(certificate, verdict);
    if (verdict instanceof Error) throw verdict;
    return { subject: leaf.user, expiresMs: leaf.notAfterMs };
  }

  #isCurrent(verdict: Chain | Error): boolean {
    const now = this.#clock.now();
    return verdict instanceof Error || verdict.every(({ notAfterMs }) => now <= notAfterMs);
  }

  async #judge(certificate: PeerCertificate): Promise<Chain | Error> {
    this.#roots ??= Promise.all(this.#bundle.map(parseCertificate));
    const [roots, peer] = await Promise.all([this.#roots, parsePeer(certificate)]);
    try {
      return findChain(roots, peer, this.#clock.now());
    } catch (error) {
      if (error instanceof Error) return error;
      throw error;
    }
  }
}

interface CertificateOptions {
  /** Reads the user's UID from the certificate (gate `AllowParsingUserUIDFromCertAuth`). */
  readonly uids: boolean;
  /** Receives how long each accepted certificate is still valid. */
  readonly expires: (inMs: number) => void;
  readonly clock: Clock;
}

/** CN is the user and each O a group. Source: kubernetes/apiserver `authentication/request/x509`. */
export function clientCertificates(
  verifier: () => CertificateVerifier | undefined,
  { uids: withUids, expires, clock }: CertificateOptions,
): Authenticator {
  return async (_request, { certificate }) => {
    const current = verifier();
    if (current === undefined || certificate === undefined) return undefined;
    const { subject, expiresMs } = await current.verify(certificate);
    expires(expiresMs - clock.now());
    const { commonName = "", organizations } = subject;
    if (commonName === "") return undefined;
    const uids = withUids ? subject.uids : [];
    const [uid = ""] = uids;
    if (uids.length > 1 || (uids.length === 1 && uid === ""))
      throw new CodedError("UntrustedCertificate", "the client certificate must have one UID or none");
    const fingerprint = createHash("sha256").update(certificate.raw).digest("hex");
    return {
      name: commonName,
      uid,
      groups: organizations,
      extra: { "authentication.kubernetes.io/credential-id": [`X509SHA256=${fingerprint}`] },
    };
  };
}
