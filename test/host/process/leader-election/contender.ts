import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { defaultOptions } from "../../../../host/config/flags/options.ts";
import type { LeaderMigration } from "../../../../host/config/parse/migration-config.ts";
import type { WorkEnd } from "../../../../host/generation/slot/slot.ts";
import { createLeadership, type Leadership, type LeadershipEnd } from "../../../../host/run/leadership.ts";
import { createParts, type HostInput, type ProcessParts } from "../../../../host/run/process-parts.ts";
import type { SandboxApiServer } from "../../../../sdk/testing/api-server/index.ts";
import { noPlugins } from "../../../kit/no-plugins.ts";

export interface Contender {
  readonly leadership: Leadership;
  readonly parts: ProcessParts;
  /** Its callbacks and the steps of its work, in order. */
  readonly reported: readonly string[];
  /** How often the loss of a lock has been reported. */
  readonly losses: number;
  /** How often a watch has shown that the main lock was released. */
  readonly releases: number;
  /** Writes of the Lease that were sent before the last time that a watch has shown that. */
  readonly writesBeforeRelease: number;
  readonly stop: () => void;
  /** Lets its work come back once it has been asked to, but for what is outstanding. */
  readonly finish: (outstanding?: WorkEnd["outstanding"]) => void;
  readonly ended: Promise<LeadershipEnd["outcome"]>;
}

/** Where contenders meet; `ending` stops them all. */
export interface ContenderWorld {
  readonly api: SandboxApiServer;
  /** For the kubeconfig. */
  readonly folder: string;
  readonly ending: AsyncDisposableStack;
}

/** A process's share of the elections; its work comes back when it is asked to and `finish` was called. */
export async function startContender(
  { api, folder, ending }: ContenderWorld,
  mainLease: string,
  migrations: readonly LeaderMigration[],
  timings: Partial<HostInput["options"]> = {},
): Promise<Contender> {
  const kubeconfig = join(folder, "kubeconfig");
  await writeFile(kubeconfig, api.kubeconfig(mainLease));
  const input: HostInput = {
    argv: [],
    options: {
      ...defaultOptions,
      kubeconfig,
      kubeApiQps: -1,
      leaderElectResourceName: mainLease,
      leaderElectLeaseDuration: 6_000,
      leaderElectRenewDeadline: 4_000,
      leaderElectRetryPeriod: 50,
      ...timings,
    },
    own: () => new Map(),
    notices: [],
    settings: [],
    ...noPlugins(),
    migrations,
    environment: {},
    writeLog: () => undefined,
  };
  const parts = await createParts(input, ending);
  let writes = 0;
  const counted: ProcessParts["clients"]["transport"] = (...args) => {
    const transport = parts.clients.transport(...args);
    const send: typeof transport.send = (request) => {
      if (request.method === "PUT") writes += 1;
      return transport.send(request);
    };
    return { url: transport.url, userAgent: transport.userAgent, send, close: () => transport.close() };
  };
  const leadership = createLeadership(input, { ...parts, clients: { transport: counted } });
  const reported: string[] = [];
  let losses = 0;
  let releases = 0;
  let writesBeforeRelease = 0;
  const stopping = new AbortController();
  const finished = Promise.withResolvers<WorkEnd["outstanding"]>();
  const leading = leadership.run(stopping.signal, {
    async onStartedLeading(leaseSignal) {
      reported.push("lead");
      await new Promise((resolve) => leaseSignal.addEventListener("abort", resolve, { once: true }));
      const unsafe = leadership.status.locks.filter((lock) => !leadership.locks.safelyHeld(lock.lease));
      reported.push(["stop", ...unsafe.map((lock) => `without ${lock.lease}`)].join(" "));
      const outstanding = await finished.promise;
      reported.push("stopped");
      return { outstanding, failure: undefined };
    },
    onReleased: () => {
      releases += 1;
      writesBeforeRelease = writes;
    },
    onLockWon: (lock) => void reported.push(`take ${lock}`),
    onStoppedLeading: () => void (losses += 1),
  });
  const ended = leading.then(({ outcome }) => outcome);
  const made: Contender = {
    leadership,
    parts,
    reported,
    get losses() {
      return losses;
    },
    get releases() {
      return releases;
    },
    get writesBeforeRelease() {
      return writesBeforeRelease;
    },
    stop: () => stopping.abort(),
    finish: (outstanding = []) => finished.resolve(outstanding),
    ended,
  };
  ending.defer(async () => {
    made.stop();
    made.finish();
    await ended;
  });
  return made;
}
