import { expect, test } from "bun:test";

import { manualClock } from "cloud-controller-host/sdk/testing";

import { MetricsRegistry } from "../../../../../host/process/metrics/metrics.ts";
import { Activity } from "../../../../../plugins/azure-cloud/load-balancer/reconcile/activity.ts";
import { errorOf } from "../../../../kit/rejection.ts";
import { loggerInto, type LogLine } from "../../world.ts";

const service = (name: string) => ({ metadata: { namespace: "default", name } });

test("each reconciliation of a Service is counted and timed by its result", async () => {
  const clock = manualClock();
  const metrics = new MetricsRegistry();
  const activity = new Activity({ clock, log: loggerInto([]), metrics: metrics.root, signal: AbortSignal.abort() });
  const lasting = async <T>(ms: number, end: () => T): Promise<T> => {
    await clock.sleep(ms);
    return end();
  };
  const changed = activity.track(
    service("a"),
    lasting(90_000, () => ({ writes: 2 })),
  );
  const unchanged = activity.track(
    service("b"),
    lasting(200, () => ({ writes: 0 })),
  );
  const failed = errorOf(
    activity.track(
      service("c"),
      lasting(45_000, () => {
        throw new Error("rejected");
      }),
    ),
  );
  await clock.advance(90_000);
  await Promise.all([changed, unchanged, failed]);
  const { body } = await metrics.render();
  const seconds = "cloudprovider_azure_service_reconcile_duration_seconds";
  for (const [result, duration] of [
    ["changed", 90],
    ["unchanged", 0.2],
    ["error", 45],
  ] as const) {
    expect(body).toContain(`cloudprovider_azure_services_reconciled_total{result="${result}"} 1`);
    expect(body).toContain(`${seconds}_sum{result="${result}"} ${duration}`);
  }
  expect(body).toContain(`${seconds}_bucket{le="60",result="changed"} 0`);
  expect(body).toContain(`${seconds}_bucket{le="60",result="error"} 1`);
});

test("a Service that is planned again at once is one Service in the log", async () => {
  const clock = manualClock();
  const logged: LogLine[] = [];
  const { root } = new MetricsRegistry();
  const { signal } = new AbortController();
  const activity = new Activity({ clock, log: loggerInto(logged), metrics: root, signal });
  const work = async (names: readonly string[]): Promise<readonly string[]> => {
    for (const name of names) await activity.track(service(name), Promise.resolve({ writes: 0 }));
    await clock.advance(1_000);
    return logged.splice(0).map(({ message }) => message);
  };
  expect(await work(["a", "b", "a"])).toEqual(["Verified 2 Services, 0 writes"]);
  expect(await work(["a"])).toEqual(["Verified 1 Service, 0 writes"]);
});
