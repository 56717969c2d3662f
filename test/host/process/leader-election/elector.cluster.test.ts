import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../../host/async/clock.ts";
import { createClient } from "../../../../host/kube/connection/client.ts";
import { createTransport } from "../../../../host/kube/connection/transport.ts";
import { type ElectionEnd, Elector } from "../../../../host/process/leader-election/elector.ts";
import { createLogger } from "../../../../host/process/log/log.ts";
import { MetricsRegistry } from "../../../../host/process/metrics/metrics.ts";
import { SandboxApiServer } from "../../../../sdk/testing/api-server/index.ts";

setDefaultTimeout(120_000);

const name = { namespace: "kube-system", name: "cloud-controller-manager" };
let api: SandboxApiServer;
const ending: (() => unknown)[] = [];
beforeEach(async () => {
  api = await SandboxApiServer.start();
});
afterEach(async () => {
  for (const end of ending.splice(0).toReversed()) await end();
  await api.close();
});

interface Candidate {
  readonly elector: Elector;
  readonly leading: () => boolean;
  readonly stop: () => void;
  readonly ended: Promise<ElectionEnd>;
}

/** A candidate that speaks to the API server over TLS with a connection of its own, and on the real clock. */
function candidate(identity: string): Candidate {
  const credentials = { tls: { ca: api.ca }, headers: { Authorization: `Bearer ${api.tokens.of(identity)}` } };
  const server = { url: api.url, proxy: undefined, credentials: async () => credentials };
  const transport = createTransport(server, { userAgent: identity, qps: -1, timeoutMs: 1_000 });
  const elector = new Elector({
    client: createClient(transport),
    clock: systemClock,
    log: createLogger({ format: "text", verbosity: 0, write: () => undefined }),
    events: { event: () => undefined },
    metrics: new MetricsRegistry().root,
    identity,
    namespace: name.namespace,
    leaseName: name.name,
    leaseDurationMs: 6_000,
    renewDeadlineMs: 4_000,
    retryPeriodMs: 50,
  });
  const stop = new AbortController();
  let leading = false;
  const ended = elector.run({
    signal: stop.signal,
    lead: async (lost) => {
      leading = true;
      await new Promise((resolve) => lost.addEventListener("abort", resolve, { once: true }));
      leading = false;
    },
  });
  ending.push(() => transport.close());
  ending.push(async () => {
    stop.abort();
    await ended;
  });
  return { elector, leading: () => leading, stop: () => stop.abort(), ended };
}

const lease = () => api.get(kinds.Lease, name);

describe("an election on an API server", () => {
  test("has one winner among many, who hands over to the next on a clean stop", async () => {
    const candidates = ["a", "b", "c", "d"].map(candidate);
    for (let turn = 0; turn < 3; turn++) {
      const leader = await eventually("a candidate leads", () => candidates.find(({ leading }) => leading()));
      expect(candidates.filter(({ elector }) => elector.safelyHeld())).toEqual([leader]);
      expect(lease()?.spec?.leaseTransitions).toBe(turn);
      leader.stop();
      expect(await leader.ended).toBe("released");
    }
  });

  test("keeps what others wrote into the lease, and survives that it is deleted", async () => {
    const { leading, elector } = candidate("a");
    await eventually("it leads", leading);
    api.update(kinds.Lease, name, (before) => ({
      ...before,
      metadata: { ...before.metadata, labels: { theirs: "1" } },
    }));
    const renewed = lease()?.spec?.renewTime;
    await eventually("it renews", () => lease()?.spec?.renewTime !== renewed);
    expect(lease()?.metadata?.labels).toEqual({ theirs: "1" });
    api.delete(kinds.Lease, name);
    await eventually("it is there again", () => lease()?.spec?.holderIdentity === "a");
    expect(leading()).toBeTrue();
    expect(elector.safelyHeld()).toBeTrue();
  });

  test("rides out broken connections and errors", async () => {
    const { leading } = candidate("a");
    await eventually("it leads", leading);
    api.faults.add({ match: { resource: "leases" }, effect: "disconnect", times: 3 });
    api.faults.add({ match: { resource: "leases" }, effect: { status: 500 }, times: 3 });
    await eventually("all faults have been met", () => api.faults.idle);
    const renewed = lease()?.spec?.renewTime;
    await eventually("it renews", () => lease()?.spec?.renewTime !== renewed);
    expect(leading()).toBeTrue();
  });
});
