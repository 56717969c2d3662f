import type { Defect } from "./defect.ts";

/** A change of the source of leadership, generations or informers. */
interface HostDefect extends Defect {
  /** Part of the violation that shows it. */
  readonly by: string;
  /** Found it once; others may as well. */
  readonly seed: number;
}

const generation = "host/generation";
const informers = "host/kube/informers";
const election = "host/process/leader-election";

/** Defects that leadership, generations and informers had once or might have; `table.ts` has those of the whole system. */
export const hostDefects: Readonly<Record<string, HostDefect>> = {
  "never reads again for a new lease": {
    file: `${informers}/share.ts`,
    from: "for (const informer of informers) informer.refresh(since);",
    to: "",
    by: "not exactly one host runs",
    seed: 2,
  },
  "starts controllers before the caches are read again": {
    file: `${informers}/share.ts`,
    from: "const waiting = informers.filter(({ synced }) => synced);",
    to: "const waiting: typeof informers = [];",
    by: "starts with version",
    seed: 6,
  },
  "takes every cache that has synced for fresh": {
    file: `${informers}/shared-informer.ts`,
    from: "return this.#reflector.freshAt >= since;",
    to: "return this.#synced || since < 0;",
    by: "starts with version",
    seed: 6,
  },
  "takes a store for fresh whose watch is behind the version that was read": {
    file: `${informers}/catch-up.ts`,
    from: "if (version === target || compareResourceVersion(target, version) === -1) reached",
    to: "if (target !== undefined && version !== undefined) reached",
    by: "starts with version",
    seed: 59,
  },
  "takes a store for fresh that has the version it had before the read": {
    file: `${informers}/catch-up.ts`,
    from: "proof.target = target;",
    to: "proof.target = known;",
    by: "starts with version",
    seed: 59,
  },
  "continues a watch where everything is to be listed again": {
    file: `${informers}/reflector.ts`,
    from: "    this.#version = undefined;\n    this.#backoff.reset();",
    to: "    this.#backoff.reset();",
    by: "not exactly one host runs",
    seed: 10,
  },
  "closes informers during their grace period though they are used again": {
    file: `${informers}/pool.ts`,
    from: "if (grace.signal.aborted) return;",
    to: "",
    by: "reloads began",
    seed: 43,
  },
  "starts the first generation without a look at its caches": {
    file: `${generation}/report/states.ts`,
    from: 'when: "a candidate waits", to: "preparing", effects: ["refresh"] }',
    to: 'when: "a candidate waits", to: "running", ...none, effects: ["start"] }',
    by: "starts with version",
    seed: 6,
  },
  "takes a lease that is free for free since the process began": {
    file: `${election}/lock.ts`,
    from: "    this.#availableSinceMs = this.#monotonic();\n    if (this.held) slowPath",
    to: "    this.#availableSinceMs = 0;\n    if (this.held) slowPath",
    by: "starts with version",
    seed: 55,
  },
  "takes a lease whose release a watch has shown for free since the process began": {
    file: `${election}/lock.ts`,
    from: "this.#availableSinceMs = seenMs;",
    to: "this.#availableSinceMs = 0;",
    by: "starts with version",
    seed: 6,
  },
  "never observes that a record was renewed": {
    file: `${election}/lock.ts`,
    from: "if (this.#observed === undefined || !sameRecord(this.#observed.record, recordOf(lease))) this.#observe(lease);",
    to: "if (this.#observed === undefined) this.#observe(lease);",
    by: "may write",
    seed: 1,
  },
  "takes a lease after half of its duration": {
    file: `${election}/record.ts`,
    from: "atMs + holderSeconds * 1000 > nowMs;",
    to: "atMs + holderSeconds * 500 > nowMs;",
    by: "may write",
    seed: 25,
  },
  "leads by the record alone, however long ago it was renewed": {
    file: `${election}/elector.ts`,
    from: " && this.#lock.renewalAgeMs < this.#options.renewDeadlineMs;",
    to: ";",
    by: "may write",
    seed: 14,
  },
  "leaves the fence open after a drain": {
    file: `${generation}/report/states.ts`,
    from: 'to: "fenced", effects: ["fence", "settle"] }',
    to: 'to: "fenced", effects: ["settle"] }',
    by: "may write while fenced",
    seed: 18,
  },
  "writes through a fence that was closed": {
    file: `${generation}/scope/fence.ts`,
    from: 'if (this.signal.aborted) return "its generation has ended";',
    to: "",
    by: "may write while fenced",
    seed: 18,
  },
  "waits for no controller in a drain": {
    file: `${generation}/slot/controller-runs.ts`,
    from: "const all = Promise.allSettled(this.#running.values());",
    to: "const all = Promise.allSettled([]);",
    by: "starts while",
    seed: 7,
  },
  "drains without a limit": {
    file: `${generation}/slot/controller-runs.ts`,
    from: "await within(scope.clock, timeoutMs - (scope.clock.monotonic() - began), all);",
    to: "await all;",
    by: "not exactly one host runs",
    seed: 7,
  },
  "releases the lease while work is outstanding": {
    file: `${generation}/slot/slot.ts`,
    from: "const outstanding = await this.#scope.outstanding.settled(settleMs);",
    to: "const outstanding: readonly OutstandingEntry[] = [];",
    by: "releases the lease while this is alive",
    seed: 26,
  },
  "waits for an init without a limit": {
    file: `${generation}/prepare/plugin-parts.ts`,
    from: "limitMs: scope.settings.initTimeout",
    to: "limitMs: 3_600_000",
    by: "not exactly one host runs",
    seed: 39,
  },
  "replaces a generation though nothing has changed": {
    file: `${generation}/supervisor.ts`,
    from: "if (this.#isActive(config.hash, await this.#loader.hash())) return this.#report.unchanged(trigger);",
    to: "",
    by: "has the config and plugins of",
    seed: 2,
  },
  "takes a generation without a controller that failed for complete": {
    file: `${generation}/supervisor.ts`,
    from: "if (active === undefined || active.leftOut.length > 0) return false;",
    to: "if (active === undefined) return false;",
    by: "a refused plugin was not tried again",
    seed: 25,
  },
  "takes a generation without a plugin that was refused for complete": {
    file: `${generation}/supervisor.ts`,
    from: " && plugins.refused.length === 0;",
    to: ";",
    by: "a refused plugin was not tried again",
    seed: 51,
  },
  "does not report what a generation was started without": {
    file: `${generation}/slot/slot.ts`,
    from: "    this.#report.runs.withoutPlugins(generation.refused);\n    this.#report.runs.started(",
    to: "    this.#report.runs.started(",
    by: "refused plugins",
    seed: 30,
  },
  "removes the files of plugins that run": {
    file: `${generation}/prepare/prepare.ts`,
    from: "failed.defer(spec.plugins.retain());",
    to: "",
    by: "files of its plugin were removed",
    seed: 2,
  },
  "removes the files of plugins that a reload is preparing": {
    file: `${generation}/supervisor.ts`,
    from: "      using _ = { [Symbol.dispose]: plugins.retain() };\n      const folders",
    to: "      plugins.retain()();\n      const folders",
    by: "files of its plugin were removed",
    seed: 1,
  },
  "removes the files of the plugins that run again after a failure": {
    file: `${generation}/slot/recovery.ts`,
    from: "release: generation.spec.plugins.retain(),",
    to: "release: () => undefined,",
    by: "files of its plugin were removed",
    seed: 24,
  },
};
