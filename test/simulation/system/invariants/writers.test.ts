import { afterEach, beforeEach, expect, test } from "bun:test";

import { kinds } from "cloud-controller-host/sdk";

import { intruder } from "../actions/leases.ts";
import { type Deployment, leaseNames } from "../deployments.ts";
import { leases } from "../pace.ts";
import { ClusterRig } from "./cluster-rig.ts";
import { Writers } from "./writers.ts";

let rig: ClusterRig;
beforeEach(async () => void (rig = await ClusterRig.start()));
afterEach(() => rig[Symbol.asyncDispose]());

const lease = leases.default;

let writes = 0;

/** Writes a Lease as its holder does, as a user empties it, or deletes it. */
function hold(holderIdentity: string | undefined, deployment: Deployment = "first"): void {
  const at = { namespace: "kube-system", name: leaseNames[deployment] };
  const spec = {
    holderIdentity: holderIdentity ?? "",
    renewTime: new Date(++writes).toISOString().replace("Z", "000Z"),
  };
  if (holderIdentity === undefined) rig.api.delete(kinds.Lease, at);
  else if (rig.api.get(kinds.Lease, at) === undefined) rig.api.create(kinds.Lease, { metadata: at, spec });
  else rig.api.update(kinds.Lease, at, (now) => ({ ...now, spec }));
}

/** Two hosts of a deployment, `a` and `b`: alive, and with one generation. */
function watch(deployment: Deployment = "first") {
  const broken: string[] = [];
  const notes: string[] = [];
  const host = (identity: string, index: number) => {
    const generations = { newest: 1, isNewest: (generation: number | undefined) => generation === generations.newest };
    return { identity, index, deployment, isAlive: true, status: undefined, generations };
  };
  const hosts = { a: host("a", 0), b: host("b", 1) };
  let interruptions = 0;
  const world = {
    api: rig.api,
    lease,
    get now() {
      return rig.now;
    },
    note: (_actor: string, text: string): void => void notes.push(text),
    interrupted: (): void => void (interruptions += 1),
    hostNamed: (identity: string | undefined) => Object.values(hosts).find((one) => one.identity === identity),
  };
  const writers = new Writers(world, deployment, (invariant) => void broken.push(invariant));
  const send = (name: keyof typeof hosts, generation = 1, isWrite = true): readonly string[] => {
    const exchange = { generation, method: "PUT", path: "/x" };
    writers.sent({ host: hosts[name], isWrite, exchange });
    return broken.splice(0);
  };
  return { hosts, notes, send, writers, interruptions: () => interruptions };
}

test("a deployment leads for as long as the last renewal of a Lease whose holder is alive is valid", () => {
  const { hosts, writers } = watch();
  expect(writers.leads).toBe(false);
  hold("a");
  expect([writers.leads, writers.leader?.identity]).toEqual([true, "a"]);
  rig.now = lease.durationMs;
  expect(writers.leads).toBe(true);
  rig.now += 1;
  expect([writers.leads, writers.leader?.identity]).toEqual([false, "a"]);
  hold("a");
  expect(writers.leads).toBe(true);
  hosts.a.isAlive = false;
  expect([writers.leads, writers.leader]).toEqual([false, undefined]);
});

test.each<readonly [holder: string, of: string | undefined]>([
  ["is empty", ""],
  ["is deleted", undefined],
  ["is held by a process that has ended", "c"],
])("a deployment whose Lease %s does not lead", (_what, holder) => {
  const { writers } = watch();
  hold("a");
  hold(holder);
  expect([writers.leads, writers.leader]).toEqual([false, undefined]);
});

test("a deployment leads by its own Lease, and not by that of another one", () => {
  const [first, second] = [watch("first"), watch("second")];
  hold("a", "second");
  expect([first.writers.leads, second.writers.leads]).toEqual([false, true]);
  expect(second.notes).toEqual(["of the second deployment is held by host0"]);
});

test("a Lease that gets another holder interrupts what processes know, and a renewal does not", () => {
  const { interruptions, notes } = watch();
  hold("a");
  hold("a");
  expect(interruptions()).toBe(1);
  hold("c");
  hold("");
  hold(undefined);
  expect(interruptions()).toBe(4);
  expect(notes).toEqual([
    "is held by host0",
    "is held by a process that has ended",
    "is held by no one",
    "is held by no one: it is deleted",
  ]);
});

test("a host that holds the Lease may write, and another one may only read", () => {
  const { send } = watch();
  hold("a");
  hold("b");
  hold("a");
  expect([send("a"), send("b", 1, false)]).toEqual([[], []]);
  expect(send("b")).toEqual(["one writer"]);
});

test("what the hosts of another deployment write is not this one's to judge", () => {
  const { hosts, send } = watch();
  hold("a");
  hosts.b.deployment = "second";
  expect(send("b")).toEqual([]);
});

test("a host whose last renewal is older than its Lease lasts may not write", () => {
  const { send } = watch();
  hold("a");
  rig.now = lease.durationMs;
  expect(send("a")).toEqual([]);
  rig.now += 1;
  expect(send("a")).toEqual(["no write after the fence"]);
});

test("a generation that a newer one has replaced may not write", () => {
  const { hosts, send } = watch();
  hold("a");
  hosts.a.generations.newest = 2;
  expect(send("a", 1)).toEqual(["no generation writes after a newer one"]);
  expect(send("a", 2)).toEqual([]);
});

test.each([
  ["that a user has emptied", ""],
  ["that a process of another installation has taken", intruder],
])("the last holder of a Lease %s may write until its next renewal is due", (_what, holder) => {
  const { send } = watch();
  hold("a");
  hold(holder);
  rig.now = lease.renewDeadlineMs;
  expect(send("a")).toEqual([]);
  rig.now += 1;
  expect(send("a")).toEqual(["one writer"]);
});

test("the last holder of a Lease that a user has deleted may write until its next renewal is due, beside a process that began since", () => {
  const { send } = watch();
  hold("a");
  rig.now = 1;
  hold(undefined);
  expect(send("a")).toEqual([]);
  rig.now = 2;
  send("b", 1, false);
  hold("b");
  expect(send("a")).toEqual([]);
  rig.now = lease.renewDeadlineMs + 1;
  expect(send("a")).toEqual(["one writer"]);
});

test("the last holder of a Lease that a user has deleted may not write once a process has it that began before", () => {
  const { send } = watch();
  hold("a");
  rig.now = 1;
  send("b", 1, false);
  rig.now = 2;
  hold(undefined);
  rig.now = 3;
  send("b", 1, false);
  hold("b");
  expect(send("a")).toEqual(["one writer"]);
});
