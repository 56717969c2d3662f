import { afterEach, beforeEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { kinds, type Lease } from "cloud-controller-host/sdk";
import { eventually } from "cloud-controller-host/sdk/testing";
import * as fc from "fast-check";

import type { LeaderMigration } from "../../../../host/config/parse/migration-config.ts";
import { microTime } from "../../../../host/process/leader-election/record.ts";
import { SandboxApiServer } from "../../../../sdk/testing/api-server/index.ts";
import { type Contender, startContender } from "./contender.ts";

setDefaultTimeout(120_000);

const main = "cloud-controller-manager";
const migrationOf = (leaderName: string, component = "*"): LeaderMigration => ({
  leaderName,
  controllerLeaders: [{ name: `${leaderName}-controller`, component }],
});

let api: SandboxApiServer;
let folder: string;
let ending: AsyncDisposableStack;
beforeEach(async () => {
  ending = new AsyncDisposableStack();
  api = ending.use(await SandboxApiServer.start());
  folder = await mkdtemp(join(tmpdir(), "migration-locks-"));
  ending.defer(() => rm(folder, { recursive: true, force: true }));
});
afterEach(() => ending.disposeAsync());

const lease = (name: string): Lease["spec"] => api.get(kinds.Lease, { namespace: "kube-system", name })?.spec;
const holder = (name: string): string => lease(name)?.holderIdentity ?? "";

/** Another holder writes itself into the Lease and never releases it. */
function seize(name: string): void {
  const metadata = { namespace: "kube-system", name };
  const spec = { holderIdentity: "an-intruder", leaseDurationSeconds: 3600, renewTime: microTime(Date.now()) };
  if (lease(name) === undefined) api.create(kinds.Lease, { metadata, spec });
  else api.update(kinds.Lease, metadata, (before) => ({ ...before, spec: { ...before.spec, ...spec } }));
}

const free = (name: string): void => {
  const metadata = { namespace: "kube-system", name };
  api.update(kinds.Lease, metadata, (before) => ({
    ...before,
    spec: { ...before.spec, holderIdentity: "", leaseDurationSeconds: 1 },
  }));
};

const contenderFor = (mainLease: string, migrations: readonly LeaderMigration[]): Promise<Contender> =>
  startContender({ api, folder, ending }, mainLease, migrations);
const contender = (...migrations: readonly LeaderMigration[]): Promise<Contender> => contenderFor(main, migrations);

const holds = ({ leadership }: Contender, ...names: readonly string[]): Promise<unknown> =>
  eventually(`these are held: ${names.join(", ")}`, () =>
    names.every((name) => leadership.status.locks.some((lock) => lock.lease === name && lock.leading)),
  );

describe("the further locks of a migration", () => {
  test("are not requested while another replica holds the main lock", async () => {
    seize(main);
    const one = await contender(migrationOf("a"), migrationOf("b"));
    await eventually("the main lock is seen", () => one.leadership.status.leader === "an-intruder");
    expect(api.requests.count({ resource: "leases", name: /^[ab]$/ })).toBe(0);
    free(main);
    await holds(one, main, "a", "b");
    expect(one.reported[0]).toBe("lead");
    expect(one.reported.slice(1).toSorted()).toEqual(["take a", "take b"]);
    const { identity } = one.leadership.status;
    expect([main, "a", "b"].map(holder)).toEqual([identity, identity, identity]);
  });

  test("are acquired independently when they become free, while the main lock is held", async () => {
    seize("a");
    const one = await contender(migrationOf("a"));
    await holds(one, main);
    await eventually("the holder is seen", () => one.leadership.status.locks[1]?.leader === "an-intruder");
    expect(one.leadership.locks.safelyHeld("a")).toBe(false);
    expect(one.reported).toEqual(["lead"]);
    const before = lease(main);
    free("a");
    await holds(one, "a");
    expect(one.reported).toEqual(["lead", "take a"]);
    expect(lease(main)).toMatchObject({ acquireTime: before?.acquireTime, leaseTransitions: 0 });
  });

  test("are not acquired if no controller would run under them", async () => {
    const one = await contender(migrationOf("a", "kube-controller-manager"), migrationOf("b", main));
    await holds(one, main, "b");
    expect(lease("a")).toBeUndefined();
    expect(one.leadership.locks.of({ name: "a-controller", aliases: [] })).toEqual({
      runBy: "kube-controller-manager",
    });
    expect(one.leadership.locks.of({ name: "b-controller", aliases: [] })).toEqual({ lock: "b" });
    expect(one.leadership.locks.of({ name: "c-controller", aliases: [] })).toEqual({ lock: main });
  });

  test("each have a health check under their own name", async () => {
    const one = await contender(migrationOf("a"), migrationOf("b"));
    const names = ["leaderElection", "leaderElection-a", "leaderElection-b"];
    expect(one.parts.health.names("healthz")).toEqual(names);
    await holds(one, main, "a", "b");
    for (const name of names) expect((await one.parts.health.respondOne("healthz", name))?.status).toBe(200);
  });
});

describe("losing one of several locks", () => {
  test.each([main, "a", "b"])("%s stops all work, already fenced", async (lost) => {
    const one = await contender(migrationOf("a"), migrationOf("b"));
    await holds(one, main, "a", "b");
    seize(lost);
    await eventually("the work is asked to stop", () => one.reported.some((line) => line.startsWith("stop")));
    expect(one.reported.at(-1)).toBe(`stop without ${lost}`);
    one.finish();
    expect(await one.ended).toBe("lost");
    expect(one.reported.at(-1)).toBe("stopped");
    const wanted = [main, "a", "b"].map((name) => (name === lost ? "an-intruder" : ""));
    expect([main, "a", "b"].map(holder)).toEqual(wanted);
  });

  test("releases the others only when all work has returned", async () => {
    const one = await contender(migrationOf("a"));
    await holds(one, main, "a");
    seize("a");
    await eventually("the work is asked to stop", () => one.reported.includes("stop without a"));
    const renewed = lease(main)?.renewTime;
    await eventually("the main lock is still renewed", () => lease(main)?.renewTime !== renewed);
    expect(holder(main)).toBe(one.leadership.status.identity);
    one.finish();
    expect(await one.ended).toBe("lost");
  });
});

describe("a clean stop", () => {
  test("a clean stop during which a lock is lost reports the loss at once, while work still returns", async () => {
    const one = await contender(migrationOf("a"));
    await holds(one, main, "a");
    one.stop();
    await eventually("the work is asked to stop", () => one.reported.includes("stop"));
    seize(main);
    await eventually("the loss is reported", () => one.losses > 0);
    expect(one.reported).not.toContain("stopped");
    one.finish();
    expect(await one.ended).toBe("lost");
  });

  test("waits for all work, then releases the further locks, and the main one last", async () => {
    const one = await contender(migrationOf("a"), migrationOf("b"));
    await holds(one, main, "a", "b");
    one.stop();
    await eventually("the work is asked to stop", () => one.reported.includes("stop"));
    const renewed = ["a", "b"].map((name) => lease(name)?.renewTime);
    await eventually("all locks are still renewed", () =>
      ["a", "b"].every((name, index) => lease(name)?.renewTime !== renewed[index]),
    );
    const { identity } = one.leadership.status;
    expect([main, "a", "b"].map(holder)).toEqual([identity, identity, identity]);

    one.finish();
    expect(await one.ended).toBe("released");
    expect([main, "a", "b"].map(holder)).toEqual(["", "", ""]);
    const writes = api.requests.list({ resource: "leases", verb: "update" }).map(({ name }) => name);
    expect(writes.lastIndexOf(main)).toBeGreaterThan(writes.lastIndexOf("a"));
    expect(writes.lastIndexOf(main)).toBeGreaterThan(writes.lastIndexOf("b"));
    expect(writes.at(-1)).toBe(main);
  });

  test("releases no lock while plugin work is outstanding", async () => {
    const one = await contender(migrationOf("a"));
    await holds(one, main, "a");
    one.stop();
    one.finish([{ kind: "run", name: "odd-controller", since: 0 }]);
    expect(await one.ended).toBe("kept");
    const { identity } = one.leadership.status;
    expect([main, "a"].map(holder)).toEqual([identity, identity]);
  });

  test("is immediate while waiting for the main lock", async () => {
    seize(main);
    const one = await contender(migrationOf("a"));
    await eventually("the main lock is seen", () => one.leadership.status.leader === "an-intruder");
    one.stop();
    expect(await one.ended).toBe("stopped");
    expect(one.reported).toEqual([]);
  });

  test("is immediate while waiting for a further lock", async () => {
    seize("a");
    const one = await contender(migrationOf("a"));
    await holds(one, main);
    one.stop();
    one.finish();
    expect(await one.ended).toBe("released");
    expect([main, "a"].map(holder)).toEqual(["", "an-intruder"]);
  });
});

test("only one component at a time works under a shared lock, however they start and stop", async () => {
  const components = ["one", "two", "three"];
  const seats = new Map<string, Contender>();
  const working = (): readonly Contender[] =>
    [...seats.values()].filter(({ reported }) => reported.includes("take a") && !reported.includes("stopped"));
  const toggle = async (name: string): Promise<void> => {
    const seated = seats.get(name);
    seats.delete(name);
    if (seated === undefined) seats.set(name, await contenderFor(name, [migrationOf("a")]));
    else {
      seated.stop();
      seated.finish();
      expect(await seated.ended).not.toBe("lost");
    }
  };
  await fc.assert(
    fc.asyncProperty(fc.array(fc.constantFrom(...components), { minLength: 4, maxLength: 12 }), async (turns) => {
      for (const name of turns) {
        await toggle(name);
        if (seats.size > 0) await eventually("one of them works", () => working().length > 0);
        expect(working().length).toBe(Math.min(1, seats.size));
      }
    }),
    { seed: 5, numRuns: 8 },
  );
});
