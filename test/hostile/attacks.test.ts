import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";

import type { KeyPair } from "../../host/process/serving/self-signed.ts";
import { type AttackName, attacks } from "./attacks.ts";
import { eightIntermediates } from "./certificates.ts";
import { Victim } from "./victim.ts";

setDefaultTimeout(120_000);

/** The memory limit in the chart's values. */
const memoryLimitMB = 512;
const durationMs = 5_000;

let victim: Victim;
let certificate: KeyPair;
beforeAll(async () => {
  [victim, certificate] = await Promise.all([Victim.start(), eightIntermediates()]);
});
afterAll(() => victim[Symbol.asyncDispose]());

const isAttack = (name: string): name is AttackName => name in attacks;

describe("while a stranger sends", () => {
  for (const name of Object.keys(attacks).filter(isAttack))
    test(`${name}, a second client's probes pass within 1 s, memory stays in its limit and the lease is kept`, async () => {
      const damage = await victim.suffer(name, { durationMs, certificate });
      console.log(`${name}: ${JSON.stringify(damage)}`);
      expect(damage.failedProbes).toEqual([]);
      expect(damage.slowestProbeMs - damage.slowestControlMs).toBeLessThan(1_000);
      expect(damage.peakRssMB).toBeLessThan(memoryLimitMB);
      expect(damage.keptLease).toBeTrue();
    });
});

test("one request with eight intermediates of one subject costs less than 0.2 s of CPU", async () => {
  const before = await victim.cpuSeconds();
  const tls = { rejectUnauthorized: false, cert: certificate.certPem, key: certificate.keyPem };
  for (let i = 0; i < 5; i++) expect((await victim.host.get("/livez", { keepalive: false, tls })).status).toBe(401);
  expect((await victim.cpuSeconds()) - before).toBeLessThan(1);
});
