import { join } from "node:path";

import * as protobuf from "protobufjs";

const { root } = protobuf.parse(await Bun.file(join(import.meta.dir, "node.proto")).text(), { keepCase: true });

export type Json = Readonly<Record<string, unknown>>;

export const typeNamed = (name: string): protobuf.Type => root.lookupType(name);

/** Pointers in Go: they are not written when they are not set, and JSON has them with a zero value, too. */
export const pointers: ReadonlySet<string> = new Set([
  "NodeSystemInfo.runningInUserNamespace",
  "NodeSwapStatus.capacity",
  "NodeRuntimeHandlerFeatures.recursiveReadOnlyMounts",
  "NodeRuntimeHandlerFeatures.userNamespaces",
  "NodeFeatures.supplementalGroupsPolicy",
  "OwnerReference.controller",
  "OwnerReference.blockOwnerDeletion",
  "ObjectMeta.deletionGracePeriodSeconds",
  "ListMeta.remainingItemCount",
]);

/** The bytes of a message, by the definitions of Kubernetes and the encoder of protobufjs. Go writes zero values. */
export const encode = (name: string, json: Json, zeros = false): Uint8Array =>
  typeNamed(name)
    .encode(messageOf(typeNamed(name), json, zeros))
    .finish();

/** A document in the envelope of Kubernetes. */
export const document = (kind: string, json: Json, more: Json = {}, zeros = false): Buffer =>
  Buffer.concat([
    Buffer.from("k8s\0"),
    encode("Unknown", { typeMeta: { apiVersion: "v1", kind }, raw: encode(kind, json, zeros), ...more }),
  ]);

export function frame(event: Uint8Array): Buffer {
  const header = Buffer.alloc(4);
  header.writeUInt32BE(event.length);
  return Buffer.concat([header, event]);
}

/** A watch event with its length. */
export const watchFrame = (type: string, kind: string, json: Json): Buffer =>
  frame(encode("WatchEvent", { type, object: { raw: document(kind, json) } }));

function messageOf(type: protobuf.Type, json: Json, zeros: boolean): Json {
  const entries = Object.entries(json).map(([name, value]) => {
    const field = type.fields[name];
    if (field === undefined) throw new TypeError(`${type.name} has no field ${name}`);
    field.resolve();
    const one = (each: unknown): unknown => valueOf(field.resolvedType, each, zeros);
    if (field instanceof protobuf.MapField) return [name, mapped(value, one)];
    return [name, Array.isArray(value) ? value.map(one) : one(value)];
  });
  return { ...(zeros && zerosOf(type)), ...Object.fromEntries(entries) };
}

const zerosOf = (type: protobuf.Type): Json =>
  Object.fromEntries(
    type.fieldsArray
      .filter(({ name, repeated, map }) => !repeated && !map && !pointers.has(`${type.name}.${name}`))
      .map((field): [string, unknown] => [field.name, zeroOf(field)])
      .filter(([, value]) => value !== null),
  );

const zeroOf = (field: protobuf.Field): unknown =>
  field.name === "creationTimestamp" ? {} : field.resolve().typeDefault;

const mapped = (entries: unknown, one: (value: unknown) => unknown): Json =>
  Object.fromEntries(Object.entries(Object(entries)).map(([key, value]) => [key, one(value)]));

function valueOf(type: protobuf.Type | protobuf.Enum | null, value: unknown, zeros: boolean): unknown {
  if (!(type instanceof protobuf.Type)) return value;
  if (type.name === "Quantity") return { string: value };
  if (type.name === "Time") return typeof value === "string" ? { seconds: Date.parse(value) / 1000, nanos: 0 } : {};
  return messageOf(type, Object(value), zeros);
}
