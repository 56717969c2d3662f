import { CodedError } from "cloud-controller-host/sdk";

import type { Certificate, ParsedPeer } from "./x509.ts";

const clientAuth = "1.3.6.1.5.5.7.3.2";
const anyUsage = "2.5.29.37.0";

/** One check of a P-521 signature costs 2 ms and more, on the thread that renews the lease. Go allows 100. */
const maxSignatureChecks = 20;
const maxIntermediateRsaBits = 4096;

const untrusted = (message: string): CodedError => new CodedError("UntrustedCertificate", message);

/** A verified chain, the root first. */
export type Chain = readonly Certificate[];

/**
 * Finds a chain from a root to the leaf, for client authentication. It works from the roots down: a signature is
 * checked only with a key that is already trusted, so certificates that a stranger invents cost nothing. Throws
 * `UntrustedCertificate` with the reason. Stricter than Go in three ways: at most `maxSignatureChecks` checks, no large
 * keys in intermediates, and no alternative names below a CA with name constraints.
 * Source: Go `crypto/x509` `Certificate.Verify`; fixtures with Go's verdicts are in the tests.
 */
export function findChain(roots: readonly Certificate[], { leaf, intermediates }: ParsedPeer, nowMs: number): Chain {
  const trusted = roots.find(({ fingerprint }) => fingerprint === leaf.fingerprint);
  const search = new Search(leaf, ancestorsByName(leaf, intermediates), nowMs);
  const chain = trusted === undefined ? search.fromAny(roots) : search.ofLeafAlone();
  if (chain === undefined) throw untrusted(`the client certificate is not trusted: ${search.reason}`);
  return chain;
}

/** Intermediates from which issuer names lead to the leaf. */
function ancestorsByName(leaf: Certificate, intermediates: readonly Certificate[]): readonly Certificate[] {
  const found = new Set<Certificate>();
  const issuers = new Set([leaf.issuer]);
  for (let size = -1; size < found.size;) {
    size = found.size;
    for (const one of intermediates)
      if (issuers.has(one.subject)) {
        found.add(one);
        issuers.add(one.issuer);
      }
  }
  return [...found];
}

class Search {
  readonly #leaf: Certificate;
  readonly #intermediates: readonly Certificate[];
  readonly #nowMs: number;
  #checksLeft = maxSignatureChecks;
  /** The last obstacle met. */
  reason = "it is signed by an unknown authority";

  constructor(leaf: Certificate, intermediates: readonly Certificate[], nowMs: number) {
    this.#leaf = leaf;
    this.#intermediates = intermediates;
    this.#nowMs = nowMs;
  }

  ofLeafAlone(): Chain | undefined {
    return this.#isAcceptable(this.#leaf) ? [this.#leaf] : undefined;
  }

  fromAny(roots: readonly Certificate[]): Chain | undefined {
    for (const root of roots) {
      if (!this.#leads(root) || !this.#isAcceptable(root) || !this.#mayIssue([root])) continue;
      const chain = this.#extend([root]);
      if (chain !== undefined) return chain;
    }
    return undefined;
  }

  #leads({ subject }: Certificate): boolean {
    return [this.#leaf, ...this.#intermediates].some(({ issuer }) => issuer === subject);
  }

  #extend(chain: Chain): Chain | undefined {
    const issuer = chain.at(-1);
    if (issuer === undefined) return undefined;
    for (const child of [this.#leaf, ...this.#intermediates]) {
      if (child.issuer !== issuer.subject || chain.some((known) => isSameAuthority(known, child))) continue;
      const longer = [...chain, child];
      const isLeaf = child === this.#leaf;
      if (!this.#isAcceptable(child) || !this.#fitsNameConstraints(longer)) continue;
      if (!isLeaf && !(this.#mayIssue(longer) && this.#hasModestKey(child))) continue;
      if (!this.#isSigned(child, issuer)) continue;
      const found = isLeaf ? longer : this.#extend(longer);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #isSigned(child: Certificate, issuer: Certificate): boolean {
    if (this.#checksLeft-- <= 0) throw untrusted("the client certificate is not trusted: too many signatures to check");
    return child.isSignedBy(issuer) || this.#refuse("a signature in its chain is wrong");
  }

  #isAcceptable({ notBeforeMs, notAfterMs, extendedUsages, defect }: Certificate): boolean {
    if (this.#nowMs < notBeforeMs || this.#nowMs > notAfterMs)
      return this.#refuse("it or a certificate above it has expired or is not yet valid");
    if (extendedUsages.length > 0 && !extendedUsages.includes(clientAuth) && !extendedUsages.includes(anyUsage))
      return this.#refuse("it or a certificate above it is not for client authentication");
    return defect === undefined || this.#refuse(defect);
  }

  /** The last of the chain is an authority, and no authority has more intermediates below it than it allows. */
  #mayIssue(chain: Chain): boolean {
    if (chain.at(-1)?.isAuthority !== true) return this.#refuse("a certificate above it is not a CA");
    const depth = chain.length - 1;
    const fits = chain.every(({ pathLength }, index) => depth - index <= pathLength);
    return fits || this.#refuse("a CA above it allows fewer intermediates");
  }

  #hasModestKey({ publicKey: { asymmetricKeyDetails: { modulusLength = 0, namedCurve } = {} } }: Certificate): boolean {
    const isModest = modulusLength <= maxIntermediateRsaBits && namedCurve !== "secp521r1";
    return isModest || this.#refuse("an intermediate has a key larger than RSA 4096 or P-384");
  }

  #fitsNameConstraints(chain: Chain): boolean {
    const constrained = chain.findIndex(({ hasNameConstraints }) => hasNameConstraints);
    const named =
      constrained >= 0 && chain.slice(constrained + 1).some(({ hasAlternativeNames }) => hasAlternativeNames);
    return (
      !named || this.#refuse("a CA above it has name constraints, and alternative names below it are not supported")
    );
  }

  #refuse(reason: string): false {
    this.reason = reason;
    return false;
  }
}

/** One subject with one key is one authority, however often it has been certified. upstream: `alreadyInChain`. */
const isSameAuthority = (a: Certificate, b: Certificate): boolean =>
  a.subject === b.subject && a.publicKey.equals(b.publicKey);
