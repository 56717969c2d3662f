import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";

import { type CertificateSubject, subjectOf } from "./certificate-subject.ts";

/** The certificate that a client showed. It has not been verified: whoever relies on it does that. */
export interface PeerCertificate extends CertificateSubject {
  /** DER. */
  readonly raw: Uint8Array;
  /** What the client sent along to lead up to a root, DER each. */
  readonly intermediates: readonly Uint8Array[];
}

/** Who sent a request, and what a `Request` cannot carry. */
export interface PeerInfo {
  readonly address: string;
  readonly port: number;
  /** 1 or 2. */
  readonly httpVersion: number;
  readonly certificate: PeerCertificate | undefined;
  /** The values of a header one by one, as they came; `Headers` joins them with commas. */
  readonly headerValues: (name: string) => readonly string[];
}

interface ShownCertificate {
  readonly raw?: Uint8Array;
  readonly issuerCertificate?: ShownCertificate;
}

/** Reads what the client showed in the handshake; undefined when it showed nothing. */
export function peerCertificate(socket: Socket | TLSSocket): PeerCertificate | undefined {
  const shown: ShownCertificate | undefined =
    "getPeerCertificate" in socket ? socket.getPeerCertificate(true) : undefined;
  if (shown?.raw === undefined) return undefined;
  return { ...subjectOrNone(shown.raw), raw: shown.raw, intermediates: issuersOf(shown) };
}

/** A subject that cannot be read names nobody. */
function subjectOrNone(raw: Uint8Array): CertificateSubject {
  try {
    return subjectOf(raw);
  } catch {
    return { commonName: undefined, organizations: [], uids: [] };
  }
}

/** A chain longer than this is no chain that anybody means. */
const longestChain = 8;

function issuersOf(leaf: ShownCertificate): readonly Uint8Array[] {
  const chain: Uint8Array[] = [];
  const seen = new Set([leaf]);
  for (let next = leaf.issuerCertificate; next?.raw !== undefined; next = next.issuerCertificate) {
    if (seen.has(next) || chain.length === longestChain) break;
    seen.add(next);
    chain.push(next.raw);
  }
  return chain;
}

/** Groups Node's flat list of names and values by lower-cased name. */
export function headerValues(rawHeaders: readonly string[]): (name: string) => readonly string[] {
  const values = new Map<string, string[]>();
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = (rawHeaders[i] ?? "").toLowerCase();
    const value = rawHeaders[i + 1] ?? "";
    const known = values.get(name);
    if (known === undefined) values.set(name, [value]);
    else known.push(value);
  }
  return (name) => values.get(name.toLowerCase()) ?? [];
}
