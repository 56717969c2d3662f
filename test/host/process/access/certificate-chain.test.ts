import { describe, expect, spyOn, test } from "bun:test";
import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { findChain } from "../../../../host/process/access/certificate-chain.ts";
import { CertificateVerifier } from "../../../../host/process/access/client-certificate.ts";
import { type Certificate, parseCertificate, parsePeer } from "../../../../host/process/access/x509.ts";
import type { PeerCertificate } from "../../../../host/process/serving/peer.ts";
import { rejection } from "../../../kit/rejection.ts";

/** Written by chains/main.go, with the verdict of Go's crypto/x509 on each; DER in base64. */
interface Corpus {
  readonly now: string;
  readonly cases: readonly {
    readonly name: string;
    readonly roots: readonly string[];
    readonly leaf: string;
    readonly intermediates: readonly string[];
    /** Go's error; empty where it accepts the chain. */
    readonly refusal: string;
  }[];
}
const corpus: Corpus = JSON.parse(readFileSync(join(import.meta.dir, "chains/chains.json"), "utf8"));
const { cases } = corpus;
const nowMs = Date.parse(corpus.now);

/** Chains that Go accepts and this verifier refuses on purpose. */
const stricterThanGo: ReadonlyMap<string, string> = new Map([
  ["an intermediate with a P-521 key", "a key larger than RSA 4096 or P-384"],
  ["an intermediate with an RSA 8192 key", "a key larger than RSA 4096 or P-384"],
  ["name constraints, a leaf inside them", "alternative names below it are not supported"],
]);

const der = (base64: string): Uint8Array => Uint8Array.from(Buffer.from(base64, "base64"));

interface Presented {
  readonly roots: readonly Uint8Array[];
  readonly peer: PeerCertificate;
}

function presented(name: string): Presented {
  const found = cases.find((one) => one.name === name);
  if (found === undefined) throw new Error(`no chain named ${name}`);
  const { roots, leaf, intermediates } = found;
  return { roots: roots.map(der), peer: { raw: der(leaf), intermediates: intermediates.map(der) } };
}

async function verdict(name: string): Promise<string> {
  const { roots, peer } = presented(name);
  const verifying = new CertificateVerifier(roots, manualClock(nowMs)).verify(peer);
  return verifying.then(
    () => "accepted",
    (error: unknown) => String(error instanceof Error ? error.message : error),
  );
}

describe("a client's certificate chain", () => {
  for (const { name, refusal } of cases)
    test(`gets Go's verdict: ${name}`, async () => {
      const ours = await verdict(name);
      const stricter = stricterThanGo.get(name);
      if (stricter !== undefined) expect([refusal, ours]).toEqual(["", expect.stringContaining(stricter)]);
      else expect({ accepted: ours === "accepted", ours }).toMatchObject({ accepted: refusal === "" });
    });

  test.each([
    ["a forged leaf signature", "a signature in its chain is wrong"],
    ["a leaf of tomorrow", "has expired or is not yet valid"],
    ["an expired root", "has expired or is not yet valid"],
    ["path length 0 at the root, one intermediate", "allows fewer intermediates"],
    ["an intermediate for servers", "not for client authentication"],
    ["a leaf of another authority", "signed by an unknown authority"],
    ["an unknown critical extension on the leaf", "unknown critical extension 1.2.3.4"],
    ["RSA with SHA-1", "SHA-1"],
  ])("is rejected with the reason: %s", async (name, reason) => {
    expect(await verdict(name)).toContain(reason);
  });
});

/** The certificates of a case, with their signature checks counted. */
async function counted({
  roots,
  peer,
}: Presented): Promise<{ readonly find: () => unknown; readonly checks: () => number }> {
  let checks = 0;
  const count = (certificate: Certificate): Certificate => ({
    ...certificate,
    isSignedBy(issuer) {
      checks++;
      return certificate.isSignedBy(issuer);
    },
  });
  const { leaf, intermediates } = await parsePeer(peer);
  const parsedRoots = await Promise.all(roots.map(parseCertificate));
  const all = { leaf: count(leaf), intermediates: intermediates.map(count) };
  return { find: () => findChain(parsedRoots, all, nowMs), checks: () => checks };
}

describe("the number of signature checks", () => {
  test("is 0 for eight intermediates of one subject that no root has issued", async () => {
    const { find, checks } = await counted(presented("eight intermediates of one subject and key"));
    expect(find).toThrow("unknown authority");
    expect(checks()).toBe(0);
  });

  test("is one per intermediate that claims to be issued by the root", async () => {
    const { find, checks } = await counted(presented("eight intermediates in the name of the root"));
    expect(find).toThrow("a signature in its chain is wrong");
    expect(checks()).toBeLessThanOrEqual(9);
  });

  test("is 0 for intermediates of the root whose names do not lead to the leaf", async () => {
    const { roots, peer } = presented("a leaf of another authority");
    const { intermediates } = presented("a leaf under an intermediate").peer;
    const { find, checks } = await counted({ roots, peer: { ...peer, intermediates } });
    expect(find).toThrow("unknown authority");
    expect(checks()).toBe(0);
  });

  test("does not grow when the client also sends the root: a CA appears in a chain once", async () => {
    const { roots, peer } = presented("a forged leaf signature");
    const { find, checks } = await counted({ roots, peer: { ...peer, intermediates: roots } });
    expect(find).toThrow("a signature in its chain is wrong");
    expect(checks()).toBe(1);
  });

  test("never exceeds 20, whatever the client sends", async () => {
    const { roots, peer } = presented("a leaf under an intermediate");
    const { leaf, intermediates } = await parsePeer(peer);
    const [root] = await Promise.all(roots.map(parseCertificate));
    if (root === undefined) throw new Error("no root");
    let checks = 0;
    const decoys = Array.from({ length: 30 }, (_, i) =>
      intermediates.map((one) => ({
        ...one,
        publicKey: leaf.publicKey,
        fingerprint: String(i),
        isSignedBy: () => {
          checks++;
          return false;
        },
      })),
    ).flat();
    expect(() => findChain([root], { leaf, intermediates: decoys }, nowMs)).toThrow("too many signatures to check");
    expect(checks).toBe(20);
  });

  test("is 0 for later requests of a connection, rejected or accepted", async () => {
    for (const name of ["eight intermediates in the name of the root", "a leaf under an intermediate"]) {
      const { roots, peer } = presented(name);
      const verifier = new CertificateVerifier(roots, manualClock(nowMs));
      const attempt = (): Promise<unknown> => verifier.verify(peer).catch((error: unknown) => error);
      const first = await attempt();
      const checks = spyOn(X509Certificate.prototype, "verify");
      try {
        for (let i = 0; i < 10; i++) {
          const again = await attempt();
          if (first instanceof Error) expect(again).toBe(first);
        }
        expect(checks).toHaveBeenCalledTimes(0);
        await new CertificateVerifier(roots, manualClock(nowMs)).verify(peer).catch(() => undefined);
        expect(checks.mock.calls.length).toBeGreaterThan(0);
      } finally {
        checks.mockRestore();
      }
    }
  });
});

test("a leaf that is itself a root is rejected once it has expired", async () => {
  const { roots, peer } = presented("the leaf is itself a root");
  const yearsLater = manualClock(nowMs + 20 * 365 * 86_400_000);
  expect(await rejection(new CertificateVerifier(roots, yearsLater).verify(peer))).toContain("has expired");
});

test("an intermediate that cannot be parsed is ignored, as in Go", async () => {
  const { roots, peer } = presented("a leaf under an intermediate");
  const intermediates = [Uint8Array.of(1, 2, 3), ...peer.intermediates];
  await new CertificateVerifier(roots, manualClock(nowMs)).verify({ ...peer, intermediates });
});

test("an intermediate may have an RSA key of 4096 bits", async () => {
  const { roots, peer } = presented("a leaf under an intermediate");
  const { leaf, intermediates } = await parsePeer(peer);
  const { publicKey } = generateKeyPairSync("rsa", { modulusLength: 4096 });
  const large = intermediates.map((one) => ({ ...one, publicKey, isSignedBy: () => true }));
  const [root] = await Promise.all(roots.map(parseCertificate));
  if (root === undefined) throw new Error("no root");
  expect(findChain([root], { leaf: { ...leaf, isSignedBy: () => true }, intermediates: large }, nowMs)).toHaveLength(3);
});

test("the certificates of a connection are parsed once", () => {
  const { peer } = presented("a leaf under an intermediate");
  expect(parsePeer(peer)).toBe(parsePeer(peer));
});

test("an accepted chain is rejected once any of its certificates has expired", async () => {
  const clock = manualClock(nowMs);
  const { roots, peer } = presented("a leaf under an intermediate");
  const verifier = new CertificateVerifier(roots, clock);
  expect((await verifier.verify(peer)).expiresMs).toBe(nowMs + 86_400_000);
  await clock.advance(86_400_001);
  expect(await rejection(verifier.verify(peer))).toContain("has expired");
});
