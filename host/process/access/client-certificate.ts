import { createHash, X509Certificate } from "node:crypto";

import { type Clock, CodedError } from "cloud-controller-host/sdk";

import type { PeerCertificate } from "./peer.ts";
import type { Authenticator } from "./user.ts";

const clientAuth = "1.3.6.1.5.5.7.3.2";
const anyUsage = "2.5.29.37.0";
const deepestChain = 5;

const untrusted = (message: string): CodedError => new CodedError("UntrustedCertificate", message);

/** Splits a PEM bundle; throws `InvalidCertificate` when it holds no certificate or one that cannot be read. */
export function parseBundle(pem: string, origin: string): readonly X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  if (blocks.length === 0) throw new CodedError("InvalidCertificate", `${origin} holds no PEM certificate`);
  return blocks.map((block) => {
    try {
      return new X509Certificate(block);
    } catch (error) {
      throw new CodedError("InvalidCertificate", `${origin} holds a certificate that cannot be read`, { cause: error });
    }
  });
}

/**
 * Checks client certificates against a bundle of CAs: the chain's signatures, its validity now, and that the leaf may
 * be used by a client. Path lengths and name constraints of CAs are not looked at.
 */
export class CertificateVerifier {
  readonly #roots: readonly X509Certificate[];
  readonly #clock: Clock;
  /** Chains found; a certificate object lives as long as its connection. */
  readonly #chains = new WeakMap<PeerCertificate, readonly X509Certificate[]>();

  constructor(roots: readonly X509Certificate[], clock: Clock) {
    this.#roots = roots;
    this.#clock = clock;
  }

  /** Throws `UntrustedCertificate` with the reason; gives back when the leaf runs out, in milliseconds since 1970. */
  verify(certificate: PeerCertificate): { readonly expiresMs: number } {
    const chain = this.#chains.get(certificate) ?? this.#chainOf(certificate);
    this.#chains.set(certificate, chain);
    const now = this.#clock.now();
    for (const { validFrom, validTo } of chain)
      if (now < Date.parse(validFrom) || now > Date.parse(validTo))
        throw untrusted("the client certificate or one that vouches for it is not valid at this time");
    return { expiresMs: Date.parse(chain[0]?.validTo ?? "") };
  }

  #chainOf({ raw, intermediates }: PeerCertificate): readonly X509Certificate[] {
    const leaf = new X509Certificate(Buffer.from(raw));
    const between = intermediates.map((der) => new X509Certificate(Buffer.from(der)));
    const usages: readonly string[] | undefined = leaf.keyUsage;
    if (usages !== undefined && usages.length > 0 && !usages.includes(clientAuth) && !usages.includes(anyUsage))
      throw untrusted("the certificate is not one for clients");
    const chain = this.#climb([leaf], between);
    if (chain === undefined) throw untrusted("the client certificate is signed by an unknown authority");
    return chain;
  }

  #climb(
    chain: readonly X509Certificate[],
    between: readonly X509Certificate[],
  ): readonly X509Certificate[] | undefined {
    const top = chain.at(-1);
    if (top === undefined || chain.length > deepestChain) return undefined;
    const root = this.#roots.find((candidate) => issued(candidate, top));
    if (root !== undefined) return [...chain, root];
    for (const next of between) {
      if (chain.some(({ fingerprint256 }) => fingerprint256 === next.fingerprint256) || !issued(next, top)) continue;
      const found = this.#climb([...chain, next], between);
      if (found !== undefined) return found;
    }
    return undefined;
  }
}

const issued = (authority: X509Certificate, child: X509Certificate): boolean =>
  authority.ca && child.checkIssued(authority) && child.verify(authority.publicKey);

interface CertificateOptions {
  /** Whether a certificate names its user's UID (gate `AllowParsingUserUIDFromCertAuth`). */
  readonly uids: boolean;
  /** Told how long each certificate that counts is still valid. */
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
    const { expiresMs } = current.verify(certificate);
    expires(expiresMs - clock.now());
    const { commonName = "", organizations } = certificate;
    if (commonName === "") return undefined;
    const uids = withUids ? certificate.uids : [];
    const [uid = ""] = uids;
    if (uids.length > 1 || (uids.length === 1 && uid === ""))
      throw untrusted("the client certificate must name one UID or none");
    const fingerprint = createHash("sha256").update(certificate.raw).digest("hex");
    return {
      name: commonName,
      uid,
      groups: organizations,
      extra: { "authentication.kubernetes.io/credential-id": [`X509SHA256=${fingerprint}`] },
    };
  };
}
