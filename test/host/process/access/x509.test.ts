import "reflect-metadata";

import { beforeAll, describe, expect, test } from "bun:test";

import { type JsonAttributeObject, Name, X509CertificateGenerator } from "@peculiar/x509";
import * as fc from "fast-check";

import { type CertificateSubject, parseCertificate } from "../../../../host/process/access/x509.ts";
import { rejection } from "../../../kit/rejection.ts";

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const uidType = "1.3.6.1.4.1.57683.2";
let keys: CryptoKeyPair;
beforeAll(async () => {
  keys = await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
});

type Subject = readonly (readonly [type: string, value: string])[];

type Encode = (value: string) => JsonAttributeObject;

async function certificateOf(subject: Subject, encode: Encode = (utf8String) => ({ utf8String })): Promise<Uint8Array> {
  const certificate = await X509CertificateGenerator.createSelfSigned({
    name: new Name(subject.map(([type, value]) => ({ [type]: [encode(value)] }))),
    keys,
    signingAlgorithm: algorithm,
  });
  return new Uint8Array(certificate.rawData);
}

const subjectOf = async (der: Uint8Array): Promise<CertificateSubject> => (await parseCertificate(der)).user;

describe("the subject of a certificate", () => {
  test("is decoded exactly, whatever characters it contains", async () => {
    const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(text, fc.array(text, { maxLength: 4 }), async (user, groups) => {
        const subject: Subject = [...groups.map((group) => ["O", group] as const), ["CN", user]];
        const { commonName, organizations } = await subjectOf(await certificateOf(subject));
        expect(commonName).toBe(user);
        expect(organizations).toEqual(groups);
      }),
      { seed: 11, numRuns: 60 },
    );
  });

  test("the subject of a certificate with a line break inside a group is still one group", async () => {
    const { organizations } = await subjectOf(
      await certificateOf([
        ["O", "a\nO=system:masters"],
        ["CN", "u"],
      ]),
    );
    expect(organizations).toEqual(["a\nO=system:masters"]);
  });

  test("uses the last of several common names, and every UID", async () => {
    const subject: Subject = [
      ["CN", "first"],
      [uidType, "one"],
      [uidType, "two"],
      ["CN", "last"],
    ];
    const { commonName, uids } = await subjectOf(await certificateOf(subject));
    expect(commonName).toBe("last");
    expect(uids).toEqual(["one", "two"]);
  });

  test("is decoded from legacy string types too", async () => {
    const { commonName } = await subjectOf(await certificateOf([["CN", "señor"]], (bmpString) => ({ bmpString })));
    expect(commonName).toBe("señor");
    const printable = await certificateOf([["CN", "user"]], (printableString) => ({ printableString }));
    expect((await subjectOf(printable)).commonName).toBe("user");
  });

  test("is rejected when the certificate is truncated or altered, with one code for every fault", async () => {
    const certificate = await certificateOf([["CN", "user"]]);
    expect(await rejection(subjectOf(certificate.subarray(0, certificate.length - 1)))).toBe(
      "the certificate is not valid DER",
    );
    const altered = fc.record({
      at: fc.nat(certificate.length - 1),
      bytes: fc.uint8Array({ minLength: 1, maxLength: 8 }),
    });
    const garbage = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      altered.map(({ at, bytes }) => {
        const copy = Uint8Array.from(certificate);
        copy.set(bytes.subarray(0, copy.length - at), at);
        return copy;
      }),
    );
    await fc.assert(
      fc.asyncProperty(garbage, async (bytes) => {
        const error: unknown = await subjectOf(bytes).catch((reason: unknown) => reason);
        if (error instanceof Error) expect(error).toMatchObject({ code: "InvalidCertificate" });
      }),
      { seed: 12, numRuns: 500 },
    );
  });

  test("is not read from a certificate above 32 KiB, and is from one just below", async () => {
    const [below, above] = await Promise.all(
      [16_200, 16_300].map((length) => certificateOf([["O", "g".repeat(length)]])),
    );
    if (below === undefined || above === undefined) throw new Error("no certificates");
    expect(below.length).toBeWithin(32_600, 32_769);
    expect(above.length).toBeWithin(32_769, 32_950);
    expect((await subjectOf(below)).organizations).toHaveLength(1);
    expect(await rejection(subjectOf(above))).toBe("the certificate has more than 32768 bytes");
  });
});
