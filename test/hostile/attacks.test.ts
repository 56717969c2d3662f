import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { loadavg } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";

import { eventually } from "cloud-controller-host/sdk/testing";
import { parse } from "yaml";

import type { KeyPair } from "../../host/process/serving/self-signed.ts";
import { type AttackName, attacks } from "./attacks.ts";
import { eightIntermediates, manyExtensions } from "./certificates.ts";
import { type Damage, Victim } from "./victim.ts";

setDefaultTimeout(240_000);

interface ChartValues {
  readonly resources: { readonly limits: { readonly memory: string } };
}
const valuesPath = join(import.meta.dir, "../../deploy/chart/values.yaml");
const { resources }: ChartValues = parse(await readFile(valuesPath, "utf8"));
const memoryLimitMB = Number(resources.limits.memory.replace(/Mi$/, ""));
const durationMs = 2_000;
/** A busy machine delays a probe now and then; a defect does so in every attempt. */
const maxAttempts = 6;

let victim: Victim;
let certificate: KeyPair;
beforeAll(async () => {
  [victim, certificate] = await Promise.all([Victim.start(), eightIntermediates()]);
});
afterAll(() => victim[Symbol.asyncDispose]());

const isAttack = (name: string): name is AttackName => name in attacks;
/** 1 s, or on a slow or busy machine the time of 100 probes of a host that is not attacked. */
const maxDelayMs = ({ medianControlMs }: Damage): number => Math.max(1_000, 100 * medianControlMs);
const isHarmless = (damage: Damage): boolean =>
  damage.failedProbes.length === 0 && damage.worstDelayMs < maxDelayMs(damage);

describe("a stranger on the port", () => {
  for (const name of Object.keys(attacks).filter(isAttack))
    test(`${name}, a second client's probes pass within 1 s, memory stays in its limit and the lease is kept`, async () => {
      for (let attempt = 1; ; attempt++) {
        const damage = await victim.suffer(name, { durationMs, certificate });
        const measured = JSON.stringify({ ...damage, load: loadavg()[0]?.toFixed(1) });
        expect(damage.connections, measured).toBeGreaterThan(0);
        expect(damage.keptLease, measured).toBeTrue();
        expect(damage.peakRssMB, measured).toBeLessThan(memoryLimitMB);
        if (attempt < maxAttempts && !isHarmless(damage)) continue;
        expect(damage.failedProbes, measured).toEqual([]);
        expect(damage.worstDelayMs, measured).toBeLessThan(maxDelayMs(damage));
        return;
      }
    });
});

/** The first such request of a process also loads the library that parses certificates. */
const requestWith = async ({ certPem: cert, keyPem: key }: KeyPair): Promise<number> => {
  const tls = { rejectUnauthorized: false, cert, key };
  return (await victim.host.get("/livez", { keepalive: false, tls })).status;
};

for (const [what, create] of [
  ["eight intermediates of one subject", eightIntermediates],
  ["a certificate of 8,000 extensions", manyExtensions],
] as const)
  test(`one request with ${what} is refused and costs less than 0.2 s of CPU`, async () => {
    await requestWith(certificate);
    const shown = await create();
    const before = await victim.cpuSeconds();
    for (let i = 0; i < 5; i++) expect(await requestWith(shown)).toBe(401);
    expect((await victim.cpuSeconds()) - before).toBeLessThan(1);
  });

test("one connection that pipelines 40,000 requests and reads no reply costs less than 0.5 s of CPU", async () => {
  const before = await victim.cpuSeconds();
  const socket = connect({ host: "127.0.0.1", port: victim.port, rejectUnauthorized: false });
  socket.on("error", () => undefined).pause();
  socket.write("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n".repeat(40_000));
  await eventually("it is cut off", () => socket.closed);
  expect((await victim.cpuSeconds()) - before).toBeLessThan(0.5);
});
