import {
  createHash,
  generateKeyPair,
  type KeyObject,
  type KeyPairKeyObjectResult,
  randomBytes,
  sign,
} from "node:crypto";
import { isIP } from "node:net";
import { promisify } from "node:util";

import ipaddr from "ipaddr.js";

/** A certificate (leaf first, then its chain) and its private key, both PEM. */
export interface KeyPair {
  readonly certPem: string;
  readonly keyPem: string;
}

/**
 * Creates keys by type. upstream has RSA only; a P-256 key takes a fraction of the 0.1 to 0.5 s that two RSA keys take.
 */
const generators = {
  ecdsa: (): Promise<KeyPairKeyObjectResult> => promisify(generateKeyPair)("ec", { namedCurve: "P-256" }),
  rsa: (): Promise<KeyPairKeyObjectResult> => promisify(generateKeyPair)("rsa", { modulusLength: 2048 }),
};

/** Type of the serving certificate's key. The CA's is always ECDSA. */
export type KeyType = keyof typeof generators;

const hourMs = 3_600_000;
const yearMs = 365 * 24 * hourMs;

/** One value in DER: its tag, the length of its content, its content. Contents are shorter than 64 KiB. */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

const sequence = (...parts: readonly Uint8Array[]): Buffer => der(0x30, ...parts);
const objectId = (hex: string): Buffer => der(0x06, Buffer.from(hex, "hex"));
const bitString = (bytes: Uint8Array, unusedBits = 0): Buffer => der(0x03, Buffer.from([unusedBits]), bytes);
const octetString = (bytes: Uint8Array): Buffer => der(0x04, bytes);

const ecdsaWithSha256 = sequence(objectId("2a8648ce3d040302"));
const commonName = objectId("550403");
const serverAuth = objectId("2b06010505070301");
const version3 = der(0xa0, der(0x02, Buffer.from([2])));
const yes = der(0x01, Buffer.from([0xff]));
/** A point of P-256: its form, and its two coordinates. */
const pointBytes = 65;

/** By name: the last byte of the identifier below 2.5.29, and if a verifier must understand the extension. */
const extensions = {
  subjectKeyIdentifier: { id: "0e" },
  keyUsage: { id: "0f", critical: true },
  subjectAltName: { id: "11" },
  basicConstraints: { id: "13", critical: true },
  authorityKeyIdentifier: { id: "23" },
  extKeyUsage: { id: "25" },
} as const satisfies Readonly<Record<string, { readonly id: string; readonly critical?: true }>>;

function extension(name: keyof typeof extensions, value: Buffer): Buffer {
  const { id, critical } = { critical: false, ...extensions[name] };
  return sequence(objectId(`551d${id}`), ...(critical ? [yes] : []), octetString(value));
}

/** Key usages are bits from the left: digital signature, then with one between each, key encipherment and certificate signing. */
const usages = {
  authority: bitString(Buffer.from([0b1000_0100]), 2),
  ecdsa: bitString(Buffer.from([0b1000_0000]), 7),
  rsa: bitString(Buffer.from([0b1010_0000]), 5),
};

interface Certificate {
  readonly subject: string;
  readonly issuer: string;
  readonly publicKey: KeyObject;
  readonly signingKey: KeyObject;
  readonly notBeforeMs: number;
  readonly extensions: readonly Buffer[];
}

/** Source: RFC 5280, section 4.1. */
function certificate({ subject, issuer, publicKey, signingKey, notBeforeMs, extensions: own }: Certificate): string {
  const content = sequence(
    version3,
    serialNumber(),
    ecdsaWithSha256,
    name(issuer),
    sequence(time(notBeforeMs), time(notBeforeMs + yearMs)),
    name(subject),
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(...own)),
  );
  const signed = sequence(content, ecdsaWithSha256, bitString(sign("sha256", content, signingKey)));
  const lines = signed.toString("base64").match(/.{1,64}/g) ?? [];
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
}

const name = (text: string): Buffer => sequence(der(0x31, sequence(commonName, der(0x0c, Buffer.from(text)))));

/** Positive, and without a leading zero byte. */
function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  bytes[0] = 0x40 | ((bytes[0] ?? 0) & 0x3f);
  return der(0x02, bytes);
}

/** Years from 2050 on have four digits. */
function time(ms: number): Buffer {
  const text = new Date(ms).toISOString().replaceAll(/[-:T]|\.\d+/g, "");
  return text < "2050" ? der(0x17, Buffer.from(text.slice(2))) : der(0x18, Buffer.from(text));
}

/**
 * Creates a CA and a serving certificate, valid for one year from an hour ago, for `localhost`, `127.0.0.1` and the bind
 * address. Encoded here: a library for it costs each start 0.2 s of processor time. Source: client-go `util/cert`.
 */
export async function selfSigned(bindAddress: string, nowMs: number, keyType: KeyType = "ecdsa"): Promise<KeyPair> {
  const [authority, leaf] = await Promise.all([generators.ecdsa(), generators[keyType]()]);
  const seconds = Math.floor(nowMs / 1000);
  const issuer = `localhost-ca@${seconds}`;
  const shared = { issuer, signingKey: authority.privateKey, notBeforeMs: nowMs - hourMs };
  const authorityKeyId = keyId(authority.publicKey);
  const authorityPem = certificate({
    ...shared,
    subject: issuer,
    publicKey: authority.publicKey,
    extensions: [
      extension("basicConstraints", sequence(yes)),
      extension("keyUsage", usages.authority),
      extension("subjectKeyIdentifier", octetString(authorityKeyId)),
    ],
  });
  const leafPem = certificate({
    ...shared,
    subject: `localhost@${seconds}`,
    publicKey: leaf.publicKey,
    extensions: [
      extension("basicConstraints", sequence()),
      extension("keyUsage", usages[keyType]),
      extension("extKeyUsage", sequence(serverAuth)),
      extension("authorityKeyIdentifier", sequence(der(0x80, authorityKeyId))),
      extension("subjectAltName", sequence(...alternativeNames(bindAddress))),
    ],
  });
  return { certPem: leafPem + authorityPem, keyPem: leaf.privateKey.export({ type: "pkcs8", format: "pem" }) };
}

/** Of a P-256 key: the hash of its point, which is the end of its encoding. */
const keyId = (key: KeyObject): Buffer =>
  createHash("sha1")
    .update(key.export({ type: "spki", format: "der" }).subarray(-pointBytes))
    .digest();

function alternativeNames(bindAddress: string): readonly Buffer[] {
  const dns = (host: string): Buffer => der(0x82, Buffer.from(host));
  const ip = (address: string): Buffer => der(0x87, Buffer.from(ipaddr.parse(address).toByteArray()));
  const unspecified = ["0.0.0.0", "::", "127.0.0.1", ""].includes(bindAddress);
  const own = isIP(bindAddress) === 0 || unspecified ? [] : [ip(bindAddress)];
  return [dns("localhost"), ip("127.0.0.1"), ...own];
}
