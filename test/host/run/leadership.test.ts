import { expect, test } from "bun:test";

import type { Metrics } from "cloud-controller-host/sdk";

import { systemClock } from "../../../host/async/clock.ts";
import { defaultOptions } from "../../../host/config/flags/options.ts";
import type { Transport, TransportOptions } from "../../../host/kube/connection/transport.ts";
import { createLogger } from "../../../host/process/log/log.ts";
import { MetricsRegistry } from "../../../host/process/metrics/metrics.ts";
import { createLeadership } from "../../../host/run/leadership.ts";

test("leader election has connections of its own, no rate limit, and half a renew deadline per request", () => {
  const requested: (readonly [string, Omit<TransportOptions, "userAgent"> | undefined])[] = [];
  const transport = (name: string, options?: Omit<TransportOptions, "userAgent">): Transport => {
    requested.push([name, options]);
    const send = (): Promise<never> => Promise.reject(new Error("nothing is sent"));
    return { url: "", userAgent: name, send, close: () => undefined };
  };
  const metrics: Metrics = new MetricsRegistry().root;
  createLeadership(
    { options: defaultOptions, migrations: [] },
    {
      clock: systemClock,
      log: createLogger({ format: "json", verbosity: 0, write: () => undefined }),
      metrics: { root: metrics },
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
  const timeoutMs = defaultOptions.leaderElectRenewDeadline / 2;
  expect(requested).toEqual([["leader-election", { timeoutMs, dedicated: true, qps: -1 }]]);
});
