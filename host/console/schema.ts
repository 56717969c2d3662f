import { type Static, type TSchema, Type } from "@sinclair/typebox";

import { planSchema } from "../changes/plan-schema.ts";

/** The answers of the console, one schema each: the server validates them in tests, and the page has its types from them. */

const time = (description: string) => Type.String({ description: `${description}, RFC 3339` });
const optionalTime = (description: string) => Type.Optional(time(description));
const facts = Type.Array(
  Type.Object({ name: Type.String(), value: Type.String(), source: Type.Optional(Type.String()) }),
);

const ownOfSection = { title: Type.String(), facts: Type.Optional(facts) };
/** A section without its children. */
export const sectionHeadSchema = Type.Object(ownOfSection);
const sectionSchema = Type.Recursive((This) =>
  Type.Object({ ...ownOfSection, children: Type.Optional(Type.Array(This)) }),
);

const eventSchema = Type.Object({
  at: time("When it was recorded"),
  type: Type.Union([Type.Literal("Normal"), Type.Literal("Warning")]),
  reason: Type.String(),
  message: Type.String(),
  source: Type.String({ description: "The controller" }),
});

const problemSchema = Type.Object({
  severity: Type.Union([Type.Literal("critical"), Type.Literal("warning"), Type.Literal("note")]),
  title: Type.String(),
  cause: Type.String(),
  since: optionalTime("Start of the problem, if known"),
  advice: Type.String({ description: "What to do" }),
  runbook: Type.String({ description: "The row of the runbook, at /ui/runbook?row=" }),
  view: Type.Optional(Type.String({ description: "The path of the view that shows more, below /ui/" })),
});

const overviewSchema = Type.Object({
  identity: Type.String({ description: "This replica" }),
  leader: Type.String({ description: "The replica that holds the main lock; empty for none" }),
  leading: Type.Boolean({ description: "True if this replica holds it" }),
  shadow: Type.Optional(Type.Boolean({ description: "True for a replica that compares with another manager" })),
  startedAt: time("When the process started"),
  problems: Type.Array(problemSchema, { description: "The worst first" }),
  verified: Type.Array(Type.Object({ name: Type.String(), value: Type.String(), at: optionalTime("When") }), {
    description: "Facts that show what works",
  }),
});

const dated = Type.Object({ at: time("When"), reason: Type.String() });

const leadershipSchema = Type.Object({
  identity: Type.String(),
  locks: Type.Array(
    Type.Object({
      lease: Type.String(),
      leader: Type.String({ description: "Empty for none" }),
      leading: Type.Boolean(),
      expired: Type.Optional(Type.Boolean({ description: "The leader has not renewed it for its duration" })),
      unread: Type.Optional(Type.Boolean({ description: "This replica has not read it" })),
      controllers: Type.Array(Type.String(), { description: "Controllers that run here under it" }),
    }),
  ),
  generation: Type.Object({
    number: Type.Integer(),
    phase: Type.String(),
    startedAt: optionalTime("When it began to run"),
    configHash: Type.String(),
    pluginHash: Type.String(),
    disabled: Type.Boolean(),
    reloads: Type.Integer({ description: "That succeeded" }),
    lastReloadAt: optionalTime("When the last reload succeeded"),
  }),
  reloads: Type.Array(
    Type.Object({
      at: time("When it ended"),
      trigger: Type.String(),
      result: Type.String({ description: "reloaded, refused, disabled or superseded" }),
      reason: Type.String(),
      changed: Type.Array(Type.String(), { description: "Keys of the cloud config, without values, and plugins" }),
      preparing: Type.Optional(Type.Number({ description: "Seconds until the next generation was ready or refused" })),
      swapping: Type.Optional(Type.Number({ description: "Seconds without a controller" })),
    }),
    { description: "The latest 20, newest first" },
  ),
  lastRefusal: Type.Optional(dated),
  lastRollback: Type.Optional(dated),
  timeline: Type.Array(eventSchema, { description: "Hand-overs, reloads and refusals of this process, newest first" }),
});

const controllersSchema = Type.Object({
  controllers: Type.Array(
    Type.Object({
      name: Type.String({ description: "As in --controllers" }),
      state: Type.Union([Type.Literal("running"), Type.Literal("standing by"), Type.Literal("not running")]),
      lock: Type.Optional(Type.String({ description: "The Lease under which it runs" })),
      reason: Type.Optional(Type.String({ description: "Why it does not run, or what it waits for" })),
    }),
  ),
  queues: Type.Array(
    Type.Object({
      name: Type.String(),
      depth: Type.Number(),
      retries: Type.Number({ description: "Since the start of the process" }),
      done: Type.Number({ description: "Items since the start of the process" }),
      perSecond: Type.Optional(Type.Number({ description: "Items per second, over 5 s or more" })),
      meanSeconds: Type.Number({ description: "Per item" }),
      slowest: Type.Optional(
        Type.Object({ key: Type.String(), seconds: Type.Number() }, { description: "The slowest item in progress" }),
      ),
    }),
  ),
  sections: Type.Array(Type.Object({ name: Type.String(), sections: Type.Array(sectionSchema) })),
});

const writeRow = Type.Object({
  at: time("When it was sent"),
  controller: Type.String(),
  system: Type.Union([Type.Literal("cloud"), Type.Literal("kubernetes")]),
  operation: Type.String(),
  resource: Type.String(),
  outcome: Type.String({ description: "`done`, or the error" }),
  causes: Type.String({ description: "The Services and nodes behind it" }),
  changed: Type.String({ description: "Paths of the fields that it changes" }),
  milliseconds: Type.Number(),
  generation: Type.Integer(),
  correlationId: Type.String(),
});

const cloudSchema = Type.Object({
  name: Type.String({ description: "The cloud" }),
  sections: Type.Array(sectionSchema, { description: "Its own status: budgets, limits" }),
  failedWrites: Type.Integer({ description: "Among the latest writes" }),
  drift: Type.Integer({ description: "Changes of other writers that were found, among the latest writes" }),
  slowest: Type.Array(writeRow, { description: "The latest writes that took longest" }),
  latestWriteAt: optionalTime("The latest write"),
});

const serviceRow = Type.Object({
  namespace: Type.String(),
  name: Type.String(),
  state: Type.Union(
    (["failing", "waiting", "deleting", "ready", "not managed"] as const).map((state) => Type.Literal(state)),
  ),
  type: Type.String(),
  addresses: Type.String(),
  cause: Type.String(),
  since: optionalTime("Since when it is in that state"),
});

const nodeRow = Type.Object({
  name: Type.String(),
  state: Type.Union(
    (["uninitialized", "shut down", "not ready", "ready"] as const).map((state) => Type.Literal(state)),
  ),
  zone: Type.String(),
  addresses: Type.String(),
  cidrs: Type.String(),
  routes: Type.String({ description: "The condition NetworkUnavailable" }),
  providerID: Type.String(),
  since: optionalTime("When it was created"),
  notInPool: Type.String({ description: "Why no load balancer sends traffic to it; empty if one may" }),
});

const listOf = <T extends TSchema>(row: T) =>
  Type.Object({
    total: Type.Integer(),
    matching: Type.Integer({ description: "Rows that match the filter" }),
    offset: Type.Integer(),
    rows: Type.Array(row),
    counts: Type.Record(Type.String(), Type.Integer(), { description: "Rows by state" }),
    available: Type.Boolean({ description: "False while nothing here watches this kind" }),
  });

const objectSchema = Type.Object({
  subject: Type.String(),
  tree: Type.Array(sectionSchema),
  failure: Type.Optional(Type.String({ description: "Why the cloud's part could not be read" })),
  events: Type.Array(eventSchema, { description: "Recorded by this process, newest first" }),
  writes: Type.Array(writeRow, { description: "Newest first" }),
});

const planView = Type.Object({
  planning: Type.Boolean({ description: "True while one is being made" }),
  madeAt: optionalTime("When the latest was complete"),
  seconds: Type.Optional(Type.Number({ description: "It took" })),
  failure: Type.Optional(Type.String({ description: "Why it could not be made" })),
  plan: Type.Optional(planSchema),
  changesLeftOut: Type.Optional(Type.Integer({ description: "Changes beyond what is shown" })),
  fieldsLeftOut: Type.Optional(Type.Integer({ description: "Fields of the shown changes, likewise" })),
});

const runbookSchema = Type.Object({
  rows: Type.Array(Type.Object({ name: Type.String(), remedy: Type.String() })),
});

/** By the path below `/ui/api/`. */
export const answers = {
  overview: overviewSchema,
  leadership: leadershipSchema,
  controllers: controllersSchema,
  services: listOf(serviceRow),
  nodes: listOf(nodeRow),
  cloud: cloudSchema,
  writes: listOf(writeRow),
  object: objectSchema,
  plan: planView,
  runbook: runbookSchema,
};

export type Answers = { readonly [Name in keyof typeof answers]: Static<(typeof answers)[Name]> };
export type Problem = Static<typeof problemSchema>;
export type ServiceRow = Static<typeof serviceRow>;
export type NodeRow = Static<typeof nodeRow>;
export type WriteRow = Static<typeof writeRow>;
export type ConsoleEvent = Static<typeof eventSchema>;
export type Section = Static<typeof sectionSchema>;

/** One message of the stream. Pages compare its versions with those of the message before. */
export interface StreamMessage {
  readonly identity: string;
  /** Version of each source of data; it changes whenever the data do. */
  readonly versions: Readonly<Record<Source, string>>;
}

export type Source = "status" | "services" | "nodes" | "writes" | "events" | "plan" | "tick";
