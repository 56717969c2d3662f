import { expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";

import { systemClock } from "../../../host/async/clock.ts";
import { defaultOptions } from "../../../host/config/flags/options.ts";
import { createTransport, type Transport, type TransportOptions } from "../../../host/kube/connection/transport.ts";
import { createLogger } from "../../../host/process/log/log.ts";
import { MetricsRegistry } from "../../../host/process/metrics/metrics.ts";
import { createLeadership } from "../../../host/run/leadership.ts";
import { SandboxApiServer } from "../../../sdk/testing/api-server/index.ts";

/** Leadership of a host that watches nothing. */
const leadershipWith = (transport: (name: string, options?: Omit<TransportOptions, "userAgent">) => Transport) =>
  createLeadership(
    { options: defaultOptions, migrations: [] },
    {
      clock: systemClock,
      log: createLogger({ format: "json", verbosity: 0, write: () => undefined }),
      metrics: { root: new MetricsRegistry().root },
      health: { addProcess: () => undefined },
      events: { recorder: () => ({ event: () => undefined }) },
      informers: {
        share: () => {
          throw new Error("nothing is watched");
        },
      },
      clients: { transport },
    },
  );

test("leader election has connections of its own, no rate limit, and half a renew deadline per request", () => {
  const requested: (readonly [string, Omit<TransportOptions, "userAgent"> | undefined])[] = [];
  const transport = (name: string, options?: Omit<TransportOptions, "userAgent">): Transport => {
    requested.push([name, options]);
    const send = (): Promise<never> => Promise.reject(new Error("nothing is sent"));
    return { url: "", userAgent: name, send, close: () => undefined };
  };
  leadershipWith(transport);
  const timeoutMs = defaultOptions.leaderElectRenewDeadline / 2;
  expect(requested).toEqual([["leader-election", { timeoutMs, dedicated: true, qps: -1 }]]);
});

test("the status of a lock tells a Lease that was not read from one without a holder, and names a holder that no longer renews", async () => {
  await using api = await SandboxApiServer.start();
  const headers = { Authorization: `Bearer ${api.tokens.of("test")}` };
  const credentials = async () => ({ tls: { ca: api.ca }, headers });
  using ending = new DisposableStack();
  const transport = (name: string) =>
    ending.adopt(createTransport({ url: api.url, proxy: undefined, credentials }, { userAgent: name, qps: -1 }), (it) =>
      it.close(),
    );
  const one = leadershipWith(transport);
  const lock = { lease: "cloud-controller-manager", leader: "", leading: false };
  expect(one.status.locks).toEqual([{ ...lock, unread: true }]);
  const metadata = { name: lock.lease, namespace: "kube-system" };
  const renewTime = "2026-11-22T12:00:00.000000Z";
  api.create(kinds.Lease, { metadata, spec: { holderIdentity: "gone_1", leaseDurationSeconds: 1, renewTime } });
  await one.look(new AbortController().signal);
  expect(one.status.locks).toEqual([{ ...lock, leader: "gone_1" }]);
  await eventually("it has expired", () => one.status.locks[0]?.expired === true, 10_000);
  expect(one.status).toMatchObject({ leader: "gone_1", locks: [{ leader: "gone_1", leading: false }] });
  api.update(kinds.Lease, metadata, (lease) => ({ ...lease, spec: { holderIdentity: "", leaseDurationSeconds: 1 } }));
  const other = leadershipWith(transport);
  await other.look(new AbortController().signal);
  expect(other.status.locks).toEqual([lock]);
});
