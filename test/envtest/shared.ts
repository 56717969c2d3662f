import { afterAll, beforeAll, describe, setDefaultTimeout, test } from "bun:test";

import { type Assets, findAssets } from "./assets.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import { type ControlPlane, startControlPlane } from "./control-plane.ts";
import { absentVariable, type Handover, passedOn, readHandover } from "./handover.ts";

const startTimeoutMs = 180_000;
const testTimeoutMs = 120_000;

const given = passedOn(process.env);
const assets = given === undefined ? await lookForAssets() : undefined;
if (assets?.found === false) process.stderr.write(`tests on a real API server are skipped: ${assets.reason}\n`);

/** A test file that is run by itself starts a control plane of its own, when the first suite needs it. */
let own: Promise<ControlPlane> | undefined;

/**
 * A suite of tests on a real API server. The cluster is clean when the suite begins; a suite that wants that of each
 * test says `beforeEach(() => cluster.cleanSlate())`. Without a control plane the tests are skipped, but never in CI.
 */
export function describeOnRealApiServer(name: string, body: (cluster: Cluster) => void): void {
  const cluster = openCluster(openHandover);
  if (assets?.found === false) {
    if (process.env["CI"] === "true") test(name, () => void failWithout(assets.reason));
    // Without a control plane there is nothing to run on; the reason is printed above.
    else describe.skip(name, () => body(cluster));
    return;
  }
  setDefaultTimeout(testTimeoutMs);
  describe(name, () => {
    beforeAll(() => cluster.cleanSlate(), startTimeoutMs);
    body(cluster);
  });
  afterAll(stopOwn);
}

async function lookForAssets(): Promise<Assets> {
  const reason = process.env[absentVariable];
  return reason === undefined ? findAssets(process.env) : { found: false, reason };
}

function failWithout(reason: string): never {
  throw new Error(`CI runs every test, and a real API server is missing: ${reason}`);
}

async function openHandover(): Promise<Handover> {
  if (given !== undefined) return readHandover(given);
  if (assets?.found !== true) return failWithout(assets?.reason ?? "not looked for");
  own ??= startControlPlane(assets.directory);
  return (await own).handover;
}

/** Each file that started a control plane stops it; a later file of the same run would start the next. */
async function stopOwn(): Promise<void> {
  const stopping = own;
  own = undefined;
  await (await stopping)?.[Symbol.asyncDispose]();
}
