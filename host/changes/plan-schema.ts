import { type Static, Type } from "@sinclair/typebox";

const changeSchema = Type.Object({
  system: Type.Union([Type.Literal("cloud"), Type.Literal("kubernetes")]),
  action: Type.Union([Type.Literal("create"), Type.Literal("change"), Type.Literal("delete")]),
  resource: Type.String({ description: "A resource ID of the cloud, or `Service default/web`" }),
  title: Type.String({ description: "The resource in words" }),
  reasons: Type.Array(Type.String(), { description: "Services and nodes behind the change" }),
  interruptions: Type.Array(Type.String(), { description: "What interrupts traffic" }),
  fields: Type.Array(
    Type.Object({
      path: Type.String(),
      before: Type.Optional(Type.Unknown({ description: "Absent where the field is new" })),
      after: Type.Optional(Type.Unknown({ description: "Absent where the field is removed" })),
    }),
  ),
});

const heldSchema = Type.Object({
  resource: Type.String({ description: "A resource ID of the cloud" }),
  title: Type.String({ description: "The resource in words" }),
  removals: Type.Array(Type.String(), { description: "What would be removed" }),
  reason: Type.String({ description: "Why it is held, and the command that confirms it" }),
});

const inFlightSchema = Type.Object({
  resource: Type.String({ description: "A resource ID of the cloud" }),
  title: Type.String({ description: "The resource in words" }),
  state: Type.String({ description: "In the words of the cloud, such as `Updating`" }),
});

const refusedSchema = Type.Object({
  resource: Type.String({ description: "Such as `Service default/web`" }),
  reason: Type.String({ description: "What about its settings is refused" }),
});

/** The document of `plan --output=json`. A field may be added under the same version; none changes its meaning. */
export const planSchema = Type.Object({
  version: Type.Literal(1),
  cloud: Type.String({ description: "The value of --cloud-provider" }),
  complete: Type.Boolean({ description: "False if something could not be planned; see failures" }),
  changes: Type.Array(changeSchema),
  held: Type.Array(heldSchema, { description: "Removals that no cause explains: the host holds them" }),
  inFlight: Type.Array(inFlightSchema, {
    description: "Resources that another manager is changing while the plan is made",
  }),
  refused: Type.Array(refusedSchema, {
    description: "Objects that the host refuses; their events and conditions show the reason",
  }),
  failures: Type.Array(Type.String()),
  skippedControllers: Type.Array(Type.String()),
  unservedServices: Type.Optional(
    Type.Array(Type.String(), { description: "Services that no shard serves, where several share the cluster's" }),
  ),
});

export type PlanDocument = Static<typeof planSchema>;
