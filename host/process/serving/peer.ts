import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";

/** The certificate that a client presented, unverified. One object per connection. */
export interface PeerCertificate {
  /** DER. */
  readonly raw: Uint8Array;
  /** Certificates that the client sent to lead up to a root, DER each. */
  readonly intermediates: readonly Uint8Array[];
}

/** The sender of a request, as far as a `Request` cannot carry it. */
export interface PeerInfo {
  readonly address: string;
  readonly port: number;
  /** 1 or 2. */
  readonly httpVersion: number;
  readonly certificate: PeerCertificate | undefined;
  /** The values of a header one by one, as received; `Headers` joins them with commas. */
  readonly headerValues: (name: string) => readonly string[];
  /** To be called once the sender is known, so that its connection is kept when there are too many. */
  readonly authenticated: () => void;
}

interface ShownCertificate {
  readonly raw?: Uint8Array;
  readonly issuerCertificate?: ShownCertificate;
}

/** Reads the certificates of the handshake; undefined when the client presented none. */
export function peerCertificate(socket: Socket | TLSSocket): PeerCertificate | undefined {
  const shown: ShownCertificate | undefined =
    "getPeerCertificate" in socket ? socket.getPeerCertificate(true) : undefined;
  return shown?.raw === undefined ? undefined : { raw: shown.raw, intermediates: issuersOf(shown) };
}

const maxIntermediates = 8;

function issuersOf(leaf: ShownCertificate): readonly Uint8Array[] {
  const chain: Uint8Array[] = [];
  const seen = new Set([leaf]);
  for (let next = leaf.issuerCertificate; next?.raw !== undefined; next = next.issuerCertificate) {
    if (seen.has(next) || chain.length === maxIntermediates) break;
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
