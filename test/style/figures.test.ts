import { expect, test } from "bun:test";

import { read } from "./sources.ts";

/** Figures that a page states and one constant of the code decides: change both together. */
const figures: readonly (readonly [page: string, sentence: RegExp, file: string, constant: string])[] = [
  ["host/README.md", /the first minute of a generation/u, "host/generation/slot/recovery.ts", "probationMs = 60_000"],
  [
    "host/generation/README.md",
    /Within the first minute of a/u,
    "host/generation/slot/recovery.ts",
    "probationMs = 60_000",
  ],
  [
    "sdk/README.md",
    /that throws\s+within a minute of a reload/u,
    "host/generation/slot/recovery.ts",
    "probationMs = 60_000",
  ],
  [
    "host/generation/README.md",
    /after 5 to 10 s, then twice/u,
    "host/generation/slot/controller-runs.ts",
    "baseMs: 5_000, maxMs: 150_000",
  ],
  [
    "host/generation/README.md",
    /tried again after 5 to 10 s, then twice that, up to 5 to 10 minutes/u,
    "host/generation/refused-reload.ts",
    "retry = { baseMs: 5_000, maxMs: 300_000 }",
  ],
  ["host/generation/README.md", /at least 1,000 objects/u, "host/kube/informers/catch-up.ts", "defaultFrom = 1000"],
  ["host/generation/README.md", /within the last second/u, "host/kube/informers/catch-up.ts", "restMs = 1000"],
  ["host/generation/README.md", /within 250 ms/u, "host/kube/informers/catch-up.ts", "limitMs = 250"],
  [
    "plugins/cloud-node/README.md",
    /ten per second after a burst of 100/u,
    "host/kube/queue/rate-limit.ts",
    "burst: 100",
  ],
  [
    "plugins/azure-node-ipam/README.md",
    /ten nodes per second after a burst of 100/u,
    "host/kube/queue/rate-limit.ts",
    "perSecond: 10, burst: 100",
  ],
  [
    "plugins/azure-node-ipam/README.md",
    /failing cloud is called eight more times/u,
    "plugins/azure-node-ipam/allocation/allocators.ts",
    "maxFailures = 8",
  ],
  ["deploy/SHARDS.md", /at most 30 lower-case letters/u, "host/config/flags/checks.ts", "{0,28}"],
  ["host/README.md", /12 attempts; one at shutdown/u, "host/kube/events/sink.ts", "tries = 12"],
  ["host/README.md", /\| 10 times; a 401 once/u, "host/kube/connection/transport.ts", "maxRetries = 10"],
  ["host/README.md", /5 attempts of 10 s/u, "host/process/access/reviews.ts", "timeLimitMs = 10_000"],
  ["host/README.md", /which unsent events get 3 s/u, "host/run/process-parts.ts", "lastEventsMs = 3_000"],
  ["host/README.md", /requests in flight get 5 s/u, "host/run/webhook-serving.ts", "closeGraceMs = 5_000"],
  ["host/console/README.md", /120 s of time/u, "host/run/plan-process.ts", "planSeconds = 120"],
  ["host/console/README.md", /first 500 KB of it/u, "host/cli/shown-plan.ts", "maxCharacters = 500_000"],
  ["host/console/README.md", /20 at most, each for 100 s/u, "host/console/stream.ts", "lifetimeMs = 100_000"],
  ["host/console/README.md", /the answer is kept for 15 s/u, "host/console/cloud-parts.ts", "cacheMs = 15_000"],
  ["host/console/README.md", /cut\s+at 4,000 characters/u, "host/console/clean.ts", "maxText = 4_000"],
  ["deploy/OPERATE.md", /the latest 1,000 writes/u, "host/process/writes/write-log.ts", "capacity = 1_000"],
  [
    "plugins/service-lb/README.md",
    /5, 10, 20 … 300 seconds/u,
    "plugins/service-lb/controller.ts",
    "maxRetryMs = 300_000",
  ],
  ["plugins/service-lb/README.md", /up to 15 per place/u, "plugins/service-lb/places.ts", "slowPerPlace = 15"],
  [
    "plugins/cloud-node/README.md",
    /up to twenty times within the sync/u,
    "plugins/cloud-node/initialize.ts",
    "maxAttempts = 20",
  ],
  ["plugins/route/README.md", /at most 200 calls at a time/u, "plugins/route/apply.ts", "maxInFlight = 200"],
  [
    "plugins/azure-cloud/README.md",
    /are retried three times/u,
    "plugins/azure-cloud/arm/transport/retry.ts",
    "retries = 3",
  ],
  [
    "plugins/azure-cloud/README.md",
    /for at most 15 minutes/u,
    "plugins/azure-cloud/arm/transport/retry.ts",
    "maxRetryAfterMs = 900_000",
  ],
  [
    "plugins/azure-cloud/README.md",
    /at most one per second for all/u,
    "plugins/azure-cloud/arm/reads/shared-read.ts",
    "minMissIntervalMs = 1_000",
  ],
  [
    "plugins/azure-cloud/README.md",
    /discarded, at most twice a minute/u,
    "plugins/azure-cloud/arm/pipeline/pipeline.ts",
    "minRenewalIntervalMs = 30_000",
  ],
  [
    "plugins/azure-cloud/README.md",
    /again after 1 to 15 minutes/u,
    "plugins/azure-cloud/routes/route-table.ts",
    "longestPauseMs = 15 * 60_000",
  ],
  [
    "plugins/azure-cloud/README.md",
    /ends after ten minutes/u,
    "plugins/azure-cloud/arm/writes/operation-limit.ts",
    "operationLimitMs = 10 * 60_000",
  ],
  [
    "plugins/azure-node-ipam/README.md",
    /three nodes within ten minutes/u,
    "plugins/azure-node-ipam/allocation/suspension.ts",
    "maxForeignNodes = 3",
  ],
];

for (const [page, sentence, file, constant] of figures)
  test(`${page} states "${sentence.source}" as ${file} decides it`, async () => {
    expect(await read(page)).toMatch(sentence);
    expect(await read(file)).toContain(constant);
  });
