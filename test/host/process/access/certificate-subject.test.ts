import "reflect-metadata";

import { beforeAll, describe, expect, test } from "bun:test";

import { type JsonAttributeObject, Name, X509CertificateGenerator } from "@peculiar/x509";
import * as fc from "fast-check";

import { subjectOf } from "../../../../host/process/access/certificate-subject.ts";

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

describe("the subject of a certificate", () => {
  test("is read as it was written, whatever characters are in it", async () => {
    const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(text, fc.array(text, { maxLength: 4 }), async (user, groups) => {
        const subject: Subject = [...groups.map((group) => ["O", group] as const), ["CN", user]];
        const { commonName, organizations } = subjectOf(await certificateOf(subject));
        expect(commonName).toBe(user);
        expect(organizations).toEqual(groups);
      }),
      { seed: 11, numRuns: 60 },
    );
  });

  test("keeps a line break inside a group from making a second group", async () => {
    const { organizations } = subjectOf(
      await certificateOf([
        ["O", "a\nO=system:masters"],
        ["CN", "u"],
      ]),
    );
    expect(organizations).toEqual(["a\nO=system:masters"]);
  });

  test("has the last of several common names, and every UID", async () => {
    const subject: Subject = [
      ["CN", "first"],
      [uidType, "one"],
      [uidType, "two"],
      ["CN", "last"],
    ];
    const { commonName, uids } = subjectOf(await certificateOf(subject));
    expect(commonName).toBe("last");
    expect(uids).toEqual(["one", "two"]);
  });

  test("is read in the older encodings too", async () => {
    const { commonName } = subjectOf(await certificateOf([["CN", "señor"]], (bmpString) => ({ bmpString })));
    expect(commonName).toBe("señor");
    const printable = await certificateOf([["CN", "user"]], (printableString) => ({ printableString }));
    expect(subjectOf(printable).commonName).toBe("user");
  });

  test("is refused where the certificate is cut short or is none at all, and never hangs", async () => {
    const certificate = await certificateOf([["CN", "user"]]);
    expect(() => subjectOf(certificate.subarray(0, certificate.length - 1))).toThrow("no valid DER");
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
        try {
          subjectOf(bytes);
        } catch (error) {
          expect(error).toMatchObject({ code: "InvalidCertificate" });
        }
      }),
      { seed: 12, numRuns: 500 },
    );
  });
});
