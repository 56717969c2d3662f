import type { ActionKind, History } from "../history.ts";
import { change, create, history, weather } from "./history.ts";

/** Of two hosts, this seed has this one lead first. */
const [standby, leader] = [0, 1];

/** A fault of one host alone. */
const of = (host: number, what: ReturnType<typeof weather>) => ({ ...what, host, pick: 1 });

/** Again and again, with a write in nearly every moment. */
const whileServicesCome = (kind: ActionKind) => [
  ...[1, 2, 3, 4, 5, 6, 7].map((index) => [59 + index, create(index)] as const),
  ...[1, 2, 3, 4, 5, 6, 7].map((index) => [69 + index, { kind: "deleteService", pick: 1 }] as const),
  ...[60.4, 64.4, 70.4, 74.4].map((seconds) => [seconds, { kind }] as const),
];

/** Of the Lease, of processes and of generations. */
export const hostHistories: Readonly<Record<string, History>> = {
  "two hosts start": history({ hosts: 2 }),
  "a host is paused at a write": history(
    { hosts: 2 },
    [59, { kind: "pauseAtWrite", host: leader, pick: 0, forMs: 20_000 }],
    [60, create(2)],
    [60.1, create(3)],
  ),
  "a Lease is deleted": history({ hosts: 2, services: 1 }, ...whileServicesCome("deleteLease")),
  "a Lease is emptied": history({ hosts: 2, services: 1 }, ...whileServicesCome("emptyLease")),
  "a Lease is stolen": history({}, [60, { kind: "stealLease", pick: 19 }], [77, create(2)]),
  "renewals fail during writes": history(
    { services: 4 },
    [60, weather("kube", "cut", 45)],
    ...[0, 1, 2, 3].map((index) => [77 + 3 * index, change(index, 4, "192.0.2.0/24")] as const),
  ),
  "a host is stopped during a slow write": history(
    { hosts: 2, operationPolls: 25 },
    [60, create(2)],
    [60.1, weather("azure", "slow", 60)],
    [61, { kind: "stopHost", host: leader }],
  ),
  "a host that has missed a change takes over": history(
    { hosts: 2 },
    [60, of(standby, weather("kube", "cut", 5))],
    [60.1, { kind: "breakWatches", pick: 0 }],
    [70, change(0, 2, "tcp-443")],
    [85, { kind: "killHost", host: leader }],
    [88, of(standby, weather("kube", "late reads", 40))],
  ),
  "a reload during slow writes": history(
    { operationPolls: 10 },
    [60, create(2)],
    [60.5, { kind: "retag", pick: 1 }],
    [61, create(3)],
  ),
  "a Service is created after a reload": history({}, [60, { kind: "reload", pick: 1 }], [75, create(2)]),
  "credentials are rotated": history(
    {},
    [60, { kind: "rotateCredentials", pick: 0 }],
    [65, { kind: "revokeTokens" }],
    [66, change(0, 2, "tcp-443")],
  ),
  "replies are lost while nodes join": history(
    {},
    [60, weather("kube", "reply lost", 20)],
    [60.1, { kind: "joinNodes", pick: 2 }],
    [62, { kind: "joinNodes", pick: 2 }],
    [70, { kind: "joinNodes", pick: 2 }],
  ),
};
