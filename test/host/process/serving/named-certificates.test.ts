import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { eventually, manualClock } from "cloud-controller-host/sdk/testing";

import { createLogger } from "../../../../host/process/log/log.ts";
import {
  type NamedCertificateFiles,
  openNamedCertificates,
} from "../../../../host/process/serving/named-certificates.ts";
import type { KeyPair } from "../../../../host/process/serving/self-signed.ts";
import { type CertificateAuthority, createCertificateAuthority } from "../../../envtest/certificate-authority.ts";
import { rejection } from "../../../kit/rejection.ts";

setDefaultTimeout(120_000);

let directory: string;
let authority: CertificateAuthority;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "named-certificates-"));
  authority = await createCertificateAuthority();
});
afterAll(() => rm(directory, { recursive: true }));

const surroundings = {
  clock: manualClock(),
  log: createLogger({ format: "text", verbosity: 0, write: () => undefined }),
};

async function files(id: string, pair: KeyPair, names: readonly string[] = []): Promise<NamedCertificateFiles> {
  const [certFile, keyFile] = [join(directory, `${id}.crt`), join(directory, `${id}.key`)];
  await writeFile(certFile, pair.certPem);
  await writeFile(keyFile, pair.keyPem);
  return { certFile, keyFile, names };
}

describe("named certificates", () => {
  test("match by exact name before wildcard, and by a flag's names before those in the certificate", async () => {
    const [exact, wildcard, given] = await Promise.all([
      authority.issueServer(["a.example.com", "shared.example.com"]),
      authority.issueServer(["*.example.com"]),
      authority.issueServer(["not-used.test"]),
    ]);
    const certificates = await openNamedCertificates(
      [
        await files("exact", exact),
        await files("wildcard", wildcard),
        await files("given", given, ["Shared.example.com", "*.other.test"]),
      ],
      surroundings,
    );
    const found = (name: string): string | undefined => certificates.byServerName(name)?.certPem;
    expect(found("A.example.com")).toBe(exact.certPem);
    expect(found("b.example.com")).toBe(wildcard.certPem);
    expect(found("shared.example.com")).toBe(given.certPem);
    expect(found("x.other.test")).toBe(given.certPem);
    expect(found("not-used.test")).toBeUndefined();
    expect(found("deep.b.example.com")).toBeUndefined();
    expect(found("example.com")).toBeUndefined();
  });

  test("are reloaded when their files change", async () => {
    const [before, after] = await Promise.all([authority.issueServer(["a.test"]), authority.issueServer(["b.test"])]);
    const certificates = await openNamedCertificates([await files("followed", before)], surroundings);
    const stop = new AbortController();
    const running = certificates.run(stop.signal);
    await files("followed", after);
    await eventually("the new pair is there", async () => {
      await surroundings.clock.advance(10_000);
      return certificates.byServerName("b.test") !== undefined;
    });
    expect(certificates.byServerName("a.test")).toBeUndefined();
    stop.abort();
    await running;
  });

  test("named certificates that are unusable are rejected with the name of the flag and the file", async () => {
    const pair = await authority.issueServer(["a.test"]);
    const broken = files("broken", { ...pair, keyPem: "" });
    expect(await rejection(openNamedCertificates([await broken], surroundings))).toMatch(
      /^--tls-sni-cert-key: .*broken\.key is empty$/,
    );
  });
});
