import type { SecureVersion } from "node:tls";

/** TLS versions by their flag names. */
export const tlsVersions: ReadonlyMap<string, SecureVersion> = new Map([
  ["VersionTLS10", "TLSv1"],
  ["VersionTLS11", "TLSv1.1"],
  ["VersionTLS12", "TLSv1.2"],
  ["VersionTLS13", "TLSv1.3"],
]);

interface CipherSuite {
  /** The runtime's name; undefined if it no longer supports the suite. */
  readonly openssl: string | undefined;
  readonly insecure?: boolean;
  /** A TLS 1.3 suite: always enabled with that version, and not configurable. */
  readonly fixed?: boolean;
}

const suite = (openssl: string): CipherSuite => ({ openssl });
const fixed = (openssl: string): CipherSuite => ({ openssl, fixed: true });
const insecure = (openssl?: string): CipherSuite => ({ openssl, insecure: true });

/** Cipher suites by their IANA names, which the flags use. */
export const cipherSuites: ReadonlyMap<string, CipherSuite> = new Map([
  ["TLS_AES_128_GCM_SHA256", fixed("TLS_AES_128_GCM_SHA256")],
  ["TLS_AES_256_GCM_SHA384", fixed("TLS_AES_256_GCM_SHA384")],
  ["TLS_CHACHA20_POLY1305_SHA256", fixed("TLS_CHACHA20_POLY1305_SHA256")],
  ["TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", suite("ECDHE-ECDSA-AES128-SHA")],
  ["TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", suite("ECDHE-ECDSA-AES256-SHA")],
  ["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", suite("ECDHE-ECDSA-AES128-GCM-SHA256")],
  ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", suite("ECDHE-ECDSA-AES256-GCM-SHA384")],
  ["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", suite("ECDHE-ECDSA-CHACHA20-POLY1305")],
  ["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", suite("ECDHE-ECDSA-CHACHA20-POLY1305")],
  ["TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", suite("ECDHE-RSA-AES128-SHA")],
  ["TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", suite("ECDHE-RSA-AES256-SHA")],
  ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", suite("ECDHE-RSA-AES128-GCM-SHA256")],
  ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", suite("ECDHE-RSA-AES256-GCM-SHA384")],
  ["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", suite("ECDHE-RSA-CHACHA20-POLY1305")],
  ["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", suite("ECDHE-RSA-CHACHA20-POLY1305")],
  ["TLS_RSA_WITH_AES_128_CBC_SHA", insecure("AES128-SHA")],
  ["TLS_RSA_WITH_AES_256_CBC_SHA", insecure("AES256-SHA")],
  ["TLS_RSA_WITH_AES_128_CBC_SHA256", insecure()],
  ["TLS_RSA_WITH_AES_128_GCM_SHA256", insecure("AES128-GCM-SHA256")],
  ["TLS_RSA_WITH_AES_256_GCM_SHA384", insecure("AES256-GCM-SHA384")],
  ["TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", insecure("ECDHE-ECDSA-AES128-SHA256")],
  ["TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", insecure("ECDHE-RSA-AES128-SHA256")],
  ["TLS_RSA_WITH_RC4_128_SHA", insecure()],
  ["TLS_RSA_WITH_3DES_EDE_CBC_SHA", insecure("DES-CBC3-SHA")],
  ["TLS_ECDHE_ECDSA_WITH_RC4_128_SHA", insecure()],
  ["TLS_ECDHE_RSA_WITH_RC4_128_SHA", insecure()],
  ["TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", insecure()],
]);

/** Key exchange groups by their flag numbers; the value is the runtime's name, if supported. */
export const curves: ReadonlyMap<number, string | undefined> = new Map([
  [23, "P-256"],
  [24, "P-384"],
  [25, "P-521"],
  [29, "X25519"],
  [4587, undefined],
  [4588, "X25519MLKEM768"],
  [4589, undefined],
]);

const available = <Name>(known: ReadonlyMap<Name, unknown>, usable: (name: Name) => boolean): string =>
  [...known.keys()].filter(usable).join(", ");

const listed = (names: readonly (string | number)[]): string => names.join(", ");

/** Why a list of cipher suites is invalid. */
export function cipherSuiteProblem(names: readonly string[]): string | undefined {
  const usable = (name: string): boolean => cipherSuites.get(name)?.openssl !== undefined;
  const refused = names.filter((name) => !usable(name));
  if (refused.length === 0) return undefined;
  return `names ${listed(refused)}, which are not supported; use some of ${available(cipherSuites, usable)}`;
}

/** Warning about weak suites. */
export function cipherSuiteNotice(names: readonly string[]): string | undefined {
  const weak = names.filter((name) => cipherSuites.get(name)?.insecure === true);
  return weak.length === 0 ? undefined : `allows ${listed(weak)}, which is insecure`;
}

/** Why a list of key exchange groups is invalid. */
export function curveProblem(ids: readonly number[]): string | undefined {
  const usable = (id: number): boolean => curves.get(id) !== undefined;
  const refused = ids.filter((id) => !usable(id));
  if (refused.length > 0)
    return `names ${listed(refused)}, which are not supported; use some of ${available(curves, usable)}`;
  const twice = ids.filter((id, index) => ids.indexOf(id) !== index);
  return twice.length === 0 ? undefined : `names ${listed(twice)} twice`;
}

/** Why the name of a TLS version is invalid; the empty name means the default. */
export const tlsVersionProblem = (name: string): string | undefined =>
  name === "" || tlsVersions.has(name)
    ? undefined
    : `must be one of ${[...tlsVersions.keys()].join(", ")}, got "${name}"`;

/** The TLS flags as parsed. */
interface TlsChoice {
  readonly tlsCipherSuites: readonly string[];
  readonly tlsCurvePreferences: readonly number[];
  readonly tlsMinVersion: string;
}

/**
 * Offered for TLS 1.2 when the flag is empty: Go's default suites without its four with CBC. RSA key exchange has no
 * forward secrecy, and Go dropped it from its defaults in 1.22.
 */
const defaultSuites = [...cipherSuites].flatMap(([name, { insecure: weak }]) =>
  weak || name.includes("_CBC_") || !/_SHA\d+$/.test(name) ? [] : [name],
);

/** The TLS flags in the runtime's names. */
export function tlsSettings({ tlsCipherSuites, tlsCurvePreferences, tlsMinVersion }: TlsChoice): {
  readonly minVersion: SecureVersion;
  readonly ciphers?: readonly string[];
  readonly curves?: readonly string[];
} {
  const chosen = tlsCipherSuites.length === 0 ? defaultSuites : tlsCipherSuites;
  const suites = chosen.flatMap((name) => cipherSuites.get(name) ?? []);
  const ciphers = suites.flatMap((one) => (one.fixed === true || one.openssl === undefined ? [] : [one.openssl]));
  const named = tlsCurvePreferences.flatMap((id) => curves.get(id) ?? []);
  // If only TLS 1.3 suites are named, no TLS 1.2 suite may be negotiated.
  const onlyNewest = ciphers.length === 0;
  return {
    minVersion: onlyNewest ? "TLSv1.3" : (tlsVersions.get(tlsMinVersion) ?? "TLSv1.2"),
    ...(onlyNewest ? {} : { ciphers: [...new Set(ciphers)] }),
    ...(named.length === 0 ? {} : { curves: named }),
  };
}

/**
 * Type of the key to create for a serving certificate: RSA only if the flags name suites that need it and none for ECDSA.
 * upstream: always RSA.
 */
export const keyTypeFor = (choice: TlsChoice): "ecdsa" | "rsa" => {
  const { ciphers = [] } = tlsSettings(choice);
  return ciphers.length > 0 && !ciphers.some((name) => name.includes("ECDSA")) ? "rsa" : "ecdsa";
};

/** The lowest protocol version and the TLS 1.2 suites in effect, under the names that the flags use. */
export function tlsInEffect(choice: TlsChoice): readonly (readonly [flag: string, value: string])[] {
  const { minVersion, ciphers = [] } = tlsSettings(choice);
  const version = [...tlsVersions].find(([, openssl]) => openssl === minVersion)?.[0] ?? minVersion;
  const names = [...cipherSuites].filter(
    ([name, { openssl = "" }]) => ciphers.includes(openssl) && /_SHA\d*$/.test(name),
  );
  return [
    ["tls-min-version", version],
    ["tls-cipher-suites", names.map(([name]) => name).join(",")],
  ];
}
