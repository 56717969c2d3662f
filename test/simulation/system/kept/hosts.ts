import type { History } from "../history.ts";
import { change, create, history, weather } from "./history.ts";

/** Of two hosts, this seed has this one lead first. */
const leader = 1;

/** Of the Lease, of processes and of generations. */
export const hostHistories: Readonly<Record<string, History>> = {
  "two hosts start": history({ hosts: 2 }),
  "a host is paused at a write": history(
    { hosts: 2 },
    [59, { kind: "pauseAtWrite", host: leader, pick: 0, forMs: 20_000 }],
    [60, create(2)],
    [60.1, create(3)],
  ),
  "a host is paused at a write for little longer than its lease is valid": history(
    { hosts: 2 },
    [59, { kind: "pauseAtWrite", host: leader, pick: 0, forMs: 1_500 }],
    [60, create(2)],
    [60.1, create(3)],
  ),
  // The other host reads it before its holder renews it, and no watch tells either of them.
  "a Lease is deleted that no host has read again": history(
    { hosts: 2, lease: "slow", operationPolls: 6, convergeMinutes: 8 },
    [78.7, create(2)],
    [78.8, { kind: "holdWatches", forMs: 25_000 }],
    [78.9, { kind: "deleteLease", host: leader }],
  ),
  "a Lease is emptied that no host has read again": history(
    { hosts: 2, lease: "slow", operationPolls: 6, convergeMinutes: 8 },
    [78.7, create(2)],
    [78.8, { kind: "holdWatches", forMs: 25_000 }],
    [78.9, { kind: "emptyLease", host: leader }],
  ),
  // What the former leader has changed since is not in its caches, and stays.
  "a standby whose watches are lost leads": history(
    { hosts: 2 },
    [60, { kind: "loseWatches", host: 1 - leader, pick: 1 }],
    [61, change(0, 2, "tcp-443")],
    [65, { kind: "killHost", host: leader }],
  ),
  // Its holder counts from the time at which it was sent.
  "a renewal takes long": history(
    { lease: "slow", services: 1, convergeMinutes: 8, eventfulMinutes: 6 },
    [60, { ...weather("kube", "late replies", 40), pick: 0 }],
    [100, { ...weather("kube", "cut", 150), pick: 0 }],
    [220, create(2)],
  ),
  "a Lease is stolen": history({}, [60, { kind: "stealLease", pick: 19 }], [77, create(2)]),
  // Its own last renewal is still valid, and its caches are from before: the Service seems to be as its user wants it.
  "a Lease is free again that another host has held for seconds": history(
    { hosts: 2, lease: "relaxed", convergeMinutes: 6 },
    [150, change(1, 2, "ClientIP")],
    [152, { kind: "pauseHost", host: leader, forMs: 19_000 }],
    [152.1, { kind: "editLease", host: leader, pick: 0 }],
    [153, change(0, 2, "tcp-443")],
    [169.5, { kind: "stopHost", host: 1 - leader }],
    [170, change(0, 2)],
  ),
  "a process starts with the name of another load balancer": history(
    {},
    [100, { kind: "killHost" }],
    [100.5, { kind: "misconfigure", forMs: 60_000 }],
  ),
  "a Service is created after a reload": history({}, [60, { kind: "reload", pick: 1 }], [75, create(2)]),
  // The reply comes when the next generation runs, and leads to another write.
  "a generation is replaced that waits for a reply for longer than its drain lasts": history(
    { lease: "slow", eventfulMinutes: 4, convergeMinutes: 6 },
    [130, { kind: "deleteService", pick: 0 }],
    [130.1, weather("kube", "late replies", 1)],
    [131.5, { kind: "reload", pick: 1 }],
  ),
  "credentials are rotated": history(
    {},
    [60, { kind: "rotateCredentials", pick: 0 }],
    [65, { kind: "revokeTokens" }],
    [66, change(0, 2, "tcp-443")],
  ),
};
