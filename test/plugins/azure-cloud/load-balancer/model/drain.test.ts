import { describe, expect, test } from "bun:test";

import type { Node } from "cloud-controller-host/sdk";

import {
  drainCause,
  type DrainPlace,
  drainRecord,
  drainRecordOf,
  drainStep,
  type NodeDrain,
  readDrain,
  wantedRecord,
} from "../../../../../plugins/azure-cloud/load-balancer/model/drain.ts";

const node = (about: Partial<Node> = {}, record?: string): Node => ({
  ...about,
  metadata: {
    name: "node-0",
    ...about.metadata,
    ...(record === undefined ? {} : { annotations: { [drainRecord]: record } }),
  },
});
const tainted = (key: string): Node => node({ spec: { taints: [{ key, effect: "NoSchedule" }] } });
const inCondition = (type: string, status: "True" | "False" | "Unknown"): Node =>
  node({ status: { conditions: [{ type, status }] } });
const exclusion = "node.kubernetes.io/exclude-from-external-load-balancers";

describe("the sign that a node is about to leave", () => {
  const signs: readonly (readonly [string | undefined, Node])[] = [
    ["taint ToBeDeletedByClusterAutoscaler", tainted("ToBeDeletedByClusterAutoscaler")],
    ["taint karpenter.sh/disrupted", tainted("karpenter.sh/disrupted")],
    ["taint node.kubernetes.io/out-of-service", tainted("node.kubernetes.io/out-of-service")],
    [`label ${exclusion}`, node({ metadata: { labels: { [exclusion]: "" } } })],
    ["deletionTimestamp", node({ metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } })],
    ["condition DrainInProgress", inCondition("DrainInProgress", "True")],
    ["condition Drained", inCondition("Drained", "True")],
    ["condition GracefulNodeShutdownInProgress", inCondition("GracefulNodeShutdownInProgress", "True")],
    ["condition MaintenanceInProgress", inCondition("MaintenanceInProgress", "True")],
    [undefined, inCondition("MaintenancePlanned", "True")],
    [undefined, inCondition("DrainInProgress", "False")],
    [undefined, inCondition("Drained", "Unknown")],
    [undefined, tainted("node.kubernetes.io/unschedulable")],
    [undefined, tainted("DeletionCandidateOfClusterAutoscaler")],
    [undefined, node()],
  ];
  test.each(signs)("%s", (sign, given) => expect(drainCause(given)).toBe(sign));
});

describe("the record of a drain", () => {
  const nowMs = Date.parse("2026-01-01T01:00:00Z");
  const leaving = { spec: { taints: [{ key: "karpenter.sh/disrupted", effect: "NoSchedule" as const }] } };

  test("is read with the time that has passed; a time in the future is now, and an unparsable time is invalid", () => {
    const read = (record?: string): unknown => readDrain(node(leaving, record), nowMs, drainRecord);
    const cause = "taint karpenter.sh/disrupted";
    expect(read()).toEqual({ cause, record: "none", elapsedMs: 0 });
    expect(read("requested")).toEqual({ cause, record: "requested", elapsedMs: 0 });
    expect(read("2026-01-01T00:59:00Z")).toEqual({ cause, record: "down", elapsedMs: 60_000 });
    expect(read("2027-01-01T00:00:00Z")).toEqual({ cause, record: "down", elapsedMs: 0 });
    expect(read("yesterday")).toEqual({ cause, record: "invalid", elapsedMs: 0 });
    expect(readDrain(node(), nowMs, drainRecord)).toBeUndefined();
    expect(readDrain(node({}, "requested"), nowMs, drainRecord)).toEqual({
      cause: undefined,
      record: "requested",
      elapsedMs: 0,
    });
  });
});

const place: DrainPlace = { balancer: "lb", isDown: false, hasOthers: true, isLocal: false, drainMs: 60_000 };
const down = { ...place, isDown: true };
const alone = { ...place, hasOthers: false };
const atOnce = { ...place, drainMs: 0 };
const drain = (record: NodeDrain["record"], elapsedMs = 0): NodeDrain => ({ cause: "taint", record, elapsedMs });
const stays = (record: NodeDrain["record"]): NodeDrain => ({ ...drain(record), cause: undefined });

describe("an address of a node that is about to leave", () => {
  const cases: readonly (readonly [string, NodeDrain, DrainPlace, ReturnType<typeof drainStep>])[] = [
    ["waits for its record", drain("none"), place, "hold"],
    ["waits for a valid record", drain("invalid"), place, "hold"],
    ["goes down after its record", drain("requested"), place, "down"],
    ["stays down before the end", drain("down", 59_999), down, "hold"],
    ["is removed at the end", drain("down", 60_000), down, "out"],
    ["is not removed if it is up again", drain("down", 60_000), place, "hold"],
    ["is removed at once without a record", drain("skipped"), place, "out"],
    ["serves while it is alone", drain("requested"), alone, "serve"],
    ["serves while it is alone, also after the end", drain("down", 60_000), alone, "serve"],
    ["that a user has put down stays down while it is alone", drain("none"), { ...alone, isDown: true }, "hold"],
    ["leaves the pool of a local Service at the end", drain("down", 60_000), { ...alone, isLocal: true }, "out"],
    ["serves a local Service before the end", drain("down", 59_999), { ...alone, isLocal: true }, "serve"],
    ["serves again when the node stays", stays("down"), down, "serve"],
    ["of a user's state is left alone when the node stays", stays("none"), down, undefined],
    ["is as without a drain where no time is set", drain("none"), atOnce, undefined],
    ["is put up where no time is set any more", drain("down"), { ...atOnce, isDown: true }, "up"],
  ];
  test.each(cases)("%s", (_, given, at, step) => expect(drainStep(given, at)).toBe(step));
});

describe("the record that a node needs", () => {
  const cases: readonly (readonly [string, NodeDrain, readonly DrainPlace[], ReturnType<typeof wantedRecord>])[] = [
    ["is a request before an address goes down", drain("none"), [place], "requested"],
    ["is a request in place of an invalid record", drain("invalid"), [place], "requested"],
    ["is none where no time is set", drain("none"), [atOnce], undefined],
    ["is none outside of every pool", drain("none"), [], undefined],
    ["stays a request until all addresses are down", drain("requested"), [down, place], undefined],
    ["gets the time once all are down", drain("requested"), [down, down], "now"],
    ["does not wait for a pool in which it is alone", drain("requested"), [down, alone], "now"],
    ["keeps the time", drain("down", 5), [down], undefined],
    ["loses a time when an address is up", drain("down", 5), [down, place], "requested"],
    ["goes once the node has left", drain("down", 60_000), [], "none"],
    ["goes once a node that stays is up everywhere", stays("down"), [place], "none"],
    ["stays until a node that stays is up", stays("requested"), [place, down], undefined],
    ["goes where no time is set any more", drain("down"), [atOnce], "none"],
    ["cannot be written", drain("skipped"), [place], undefined],
  ];
  test.each(cases)("%s", (_, given, places, wanted) => expect(wantedRecord(given, places)).toBe(wanted));
});

describe("the key of the record", () => {
  const leads = async (): Promise<boolean> => true;

  test("is that of the deployment", () => {
    expect(drainRecordOf()).toBe(drainRecord);
    expect(drainRecordOf("", { own: "ccm" })).toBe(drainRecord);
    expect(drainRecordOf("-blue", { own: "ccm-blue", isAlive: leads })).toBe(`${drainRecord}-blue`);
    expect(drainRecordOf("", { own: "ccm-internal", isAlive: leads })).toBe(`${drainRecord}.ccm-internal`);
    expect(drainRecordOf(undefined, { own: "ccm-internal", isAlive: leads })).toBe(`${drainRecord}.ccm-internal`);
  });

  test("has 63 characters at most after the slash, whatever the name of the Lease", () => {
    const nameFor = (lease: string): string => drainRecordOf("", { own: lease, isAlive: leads }).split("/")[1] ?? "";
    expect(nameFor("l".repeat(43))).toBe(`load-balancer-drain.${"l".repeat(43)}`);
    const [one, other] = [nameFor(`${"l".repeat(43)}a`), nameFor(`${"l".repeat(43)}b`)];
    expect(one).toMatch(/^load-balancer-drain\.[0-9a-f]{16}$/);
    expect(other).not.toBe(one);
  });
});
