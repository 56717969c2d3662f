import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { messageOf } from "cloud-controller-host/sdk";
import { type ManualClock, manualClock } from "cloud-controller-host/sdk/testing";

import { credentialMetrics } from "../../../../host/kube/connection/credential-metrics.ts";
import { type ApiServer, apiServerOf } from "../../../../host/kube/connection/credentials.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { sampleOf } from "../../../../host/sandbox/testing/exposition.ts";
import { createCertificateAuthority } from "../../../envtest/certificate-authority.ts";

const minute = 60_000;

let directory = "";
let caFile = "";
let tokenFile = "";
let clock: ManualClock;
let metrics: MetricsRegistry;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ca-file-"));
  [caFile, tokenFile] = [join(directory, "ca.crt"), join(directory, "token")];
  await writeFile(tokenFile, "first");
  clock = manualClock();
  metrics = new MetricsRegistry();
});
afterEach(() => rm(directory, { recursive: true }));

/** As a pod's service account is. */
const connect = (): ApiServer =>
  apiServerOf(
    { name: "c", server: "https://127.0.0.1:6443", skipTLSVerify: false, caFile },
    { name: "u", authProvider: { name: "tokenFile", config: { tokenFile } } },
    { observer: credentialMetrics(metrics.root), clock },
  );

const reads = async (result: string, reason: string): Promise<number | undefined> =>
  sampleOf((await metrics.render()).body, "rest_client_transport_ca_reload_total", { result, reason });

describe("the CA file of the API server", () => {
  test("is read again each minute, and a new one applies from then on", async () => {
    const [old, next] = await Promise.all([createCertificateAuthority("old"), createCertificateAuthority("next")]);
    await writeFile(caFile, old.certPem);
    const access = connect();
    expect((await access.credentials()).tls.ca).toBe(old.certPem);
    await writeFile(caFile, old.certPem + next.certPem);
    await clock.advance(minute - 1);
    expect((await access.credentials()).tls.ca).toBe(old.certPem);
    await clock.advance(1);
    expect((await access.credentials()).tls.ca).toBe(old.certPem + next.certPem);
    await clock.advance(minute);
    await access.credentials();
    expect(await reads("success", "updated")).toBe(1);
    expect(await reads("success", "unchanged")).toBe(1);
  });

  test("the CA file of the API server that is temporarily missing, empty or invalid leaves the valid one in use", async () => {
    const { certPem } = await createCertificateAuthority("good");
    await writeFile(caFile, certPem);
    const access = connect();
    await access.credentials();
    const bad: readonly (readonly [reason: string, make: () => Promise<unknown>])[] = [
      ["empty", () => writeFile(caFile, "\n")],
      ["ca_parse_error", () => writeFile(caFile, certPem.slice(0, 200))],
      ["read_error", () => rm(caFile)],
    ];
    for (const [reason, make] of bad) {
      await make();
      await clock.advance(minute);
      expect((await access.credentials()).tls.ca).toBe(certPem);
      expect(await reads("failure", reason)).toBe(1);
    }
  });

  test("the CA file of the API server that was never valid fails the request, naming the file", async () => {
    const failure = (): Promise<string> =>
      connect()
        .credentials()
        .then(() => "it worked", messageOf);
    expect(await failure()).toContain(`cannot read the CA file ${caFile}`);
    await writeFile(caFile, "");
    expect(await failure()).toContain(`the CA file ${caFile} is empty`);
  });
});

describe("a token file", () => {
  test("a token file that is temporarily unreadable leaves the token in use until the API server rejects it", async () => {
    const { certPem } = await createCertificateAuthority("good");
    await writeFile(caFile, certPem);
    const access = connect();
    const first = await access.credentials();
    await rm(tokenFile);
    await clock.advance(minute);
    const [one, other] = await Promise.all([access.credentials(), access.credentials()]);
    expect([one.headers, other.headers]).toEqual([first.headers, first.headers]);
    expect(await access.credentials({ rejected: one }).then(() => "it worked", messageOf)).toContain(tokenFile);
    await writeFile(tokenFile, "second");
    expect((await access.credentials()).headers).toEqual({ Authorization: "Bearer second" });
  });
});
