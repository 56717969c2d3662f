import { expect, setDefaultTimeout, test } from "bun:test";

import { denials, operations, quotas } from "./actions/network.ts";
import { campaign } from "./campaign.ts";
import type { History } from "./history.ts";
import { create, history, pickOf, rowWith } from "./kept/history.ts";

setDefaultTimeout(300_000);

/** Times in seconds, and the statuses, of the writes of public IPs. */
async function writesIn(given: History): Promise<readonly (readonly [seconds: number, status: string])[]> {
  const [report] = await Array.fromAsync(campaign({ seeds: JSON.stringify(given), trace: true }));
  expect(report?.violations).toEqual([]);
  return (report?.trace ?? []).flatMap((line) => {
    const [, seconds, status] =
      /^ *([\d.]+) host\d +\* azure PUT \S+\/publicIPAddresses\/.* -> (\S+)$/u.exec(line) ?? [];
    return seconds === undefined || status === undefined ? [] : [[Number(seconds), status] as const];
  });
}

test("writes that are denied are refused with the status of their row for four times as long as it says, and then accepted", async () => {
  const [from, forMs] = [100, 10_000];
  const deny = { kind: "denyWrites", pick: pickOf(rowWith(denials, "/publicIPAddresses/")), forMs } as const;
  const writes = await writesIn(
    history({ convergeMinutes: 6 }, [from, deny], [from + 1, create(2)], [from + 45, create(3)]),
  );
  const end = from + (4 * forMs) / 1_000;
  const during = writes.filter(([at]) => at > from && at < end).map(([, status]) => status);
  expect(new Set(during)).toEqual(new Set(["400"]));
  const after = writes.filter(([at]) => at >= end).map(([, status]) => status);
  expect(after).toEqual(["201", "201"]);
});

test("a quota of public IPs refuses one too many with ARM's code, until it is raised or a Service goes", async () => {
  const reach = { kind: "reachQuota", pick: pickOf(rowWith(quotas, "publicIPAddresses")), forMs: 50_000 } as const;
  const writes = await writesIn(
    history(
      { eventfulMinutes: 6, convergeMinutes: 8 },
      [100, reach],
      [101, create(2)],
      [102, { kind: "deleteService", pick: 0 }],
      [200, create(3)],
    ),
  );
  const statusOf = (from: number, to: number) =>
    new Set(writes.filter(([at]) => at > from && at < to).map(([, status]) => status));
  expect(statusOf(100, 102)).toEqual(new Set(["400"]));
  expect(statusOf(102, 200)).toEqual(new Set(["201"]));
  expect(statusOf(200, 300)).toEqual(new Set(["400"]));
  expect(statusOf(300, 900)).toEqual(new Set(["201"]));
});

test("an operation that fails late is accepted at once, and fails when the others of its type end", async () => {
  const [from, lastsMs] = [100, 200_000];
  const fail = {
    kind: "failLateOperation",
    // Its row is the one after that of `pick`.
    pick: pickOf([1, operations.length, operations.indexOf("/publicIPAddresses/") - 1]),
    forMs: 3_600_000 - lastsMs,
  } as const;
  const writes = await writesIn(history({ convergeMinutes: 6 }, [from, fail], [from + 1, create(2)]));
  const late = writes.filter(([at]) => at > from);
  // It is written again because it failed, and not before.
  expect(late.map(([, status]) => status)).toEqual(["201", "200"]);
  const again = late.at(-1)?.[0];
  expect(again).toBeGreaterThan(from + lastsMs / 1_000);
  expect(again).toBeLessThan(from + lastsMs / 1_000 + 60);
});
