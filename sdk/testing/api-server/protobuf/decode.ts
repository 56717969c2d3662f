import { badRequest } from "../access/status.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import { fieldOf, type RecordSchema, type ScalarType, type Schema } from "../schema/schema.ts";
import { fieldsByNumber } from "./field-numbers.ts";
import { type Message, readMessage, type WireValue } from "./wire.ts";

const magic = "k8s\0";

/** Reads an object in the API's protobuf envelope and returns it as JSON. Throws a 400 for anything else. */
export function decodeProtobuf(body: Uint8Array, schema: RecordSchema): JsonObject {
  if (Buffer.from(body.subarray(0, 4)).toString("latin1") !== magic)
    throw badRequest("the body of the request is not in the API's protobuf envelope");
  const envelope = readMessage(body.subarray(4));
  const type = readMessage(bytesIn(envelope, 1));
  const object = decodeRecord(readMessage(bytesIn(envelope, 2)), schema);
  return { apiVersion: textIn(type, 1), kind: textIn(type, 2), ...object };
}

const lastOf = (message: Message, number: number): WireValue | undefined => message.get(number)?.at(-1);

function bytesIn(message: Message, number: number): Uint8Array {
  const value = lastOf(message, number);
  return value instanceof Uint8Array ? value : new Uint8Array();
}

const textIn = (message: Message, number: number): string => Buffer.from(bytesIn(message, number)).toString("utf8");

/** A varint as a signed number. */
function integerIn(message: Message, number: number): number {
  const value = lastOf(message, number);
  return typeof value === "bigint" ? Number(BigInt.asIntN(64, value)) : 0;
}

function decodeRecord(message: Message, schema: RecordSchema): JsonObject {
  const fields = fieldsByNumber(schema);
  if (fields === undefined) throw badRequest(`${schema.name} cannot be read from protobuf`);
  const object: Record<string, Json> = {};
  for (const [number, values] of message) {
    const field = fields.get(number);
    if (field === undefined) continue;
    const { key, schema: own } = field;
    if (own.type === "list") object[key] = values.map((value) => decodeValue(value, own.items));
    else if (own.type === "map") object[key] = Object.fromEntries(values.map((value) => decodeEntry(value, own)));
    else object[key] = decodeValue(values.at(-1) ?? 0n, own);
  }
  return object;
}

function decodeEntry(value: WireValue, map: Schema): readonly [string, Json] {
  const entry = readMessage(value instanceof Uint8Array ? value : new Uint8Array());
  const values = fieldOf(map, "");
  const below = lastOf(entry, 2) ?? new Uint8Array();
  return [textIn(entry, 1), values === undefined ? null : decodeValue(below, values)];
}

function decodeValue(value: WireValue, schema: Schema): Json {
  if (typeof value === "bigint") return schema.type === "boolean" ? value !== 0n : Number(BigInt.asIntN(64, value));
  if (schema.type === "record") return decodeRecord(readMessage(value), schema);
  if (schema.type === "list" || schema.type === "map")
    throw badRequest("a list within a list cannot be read from protobuf");
  return scalars[schema.type]?.(value) ?? null;
}

/** Scalars that are not varints, and values that are messages of their own. */
const scalars: Partial<Readonly<Record<ScalarType, (bytes: Uint8Array) => Json>>> = {
  string: (bytes) => Buffer.from(bytes).toString("utf8"),
  bytes: (bytes) => Buffer.from(bytes).toString("base64"),
  quantity: (bytes) => textIn(readMessage(bytes), 1),
  time: (bytes) => decodeTime(bytes, 0),
  microTime: (bytes) => decodeTime(bytes, 6),
  intOrString: (bytes) => {
    const message = readMessage(bytes);
    return integerIn(message, 1) === 0 ? integerIn(message, 2) : textIn(message, 3);
  },
  any: (bytes) => {
    const text = textIn(readMessage(bytes), 1);
    const value: unknown = text === "" ? {} : JSON.parse(text);
    return isObject(value) ? value : {};
  },
};

/** Seconds and nanoseconds; a time that was never set is an empty message. */
function decodeTime(bytes: Uint8Array, digits: number): Json {
  if (bytes.length === 0) return null;
  const message = readMessage(bytes);
  const date = new Date(integerIn(message, 1) * 1000).toISOString().slice(0, 19);
  const fraction = String(integerIn(message, 2)).padStart(9, "0").slice(0, digits);
  return `${date}${digits === 0 ? "" : `.${fraction}`}Z`;
}
