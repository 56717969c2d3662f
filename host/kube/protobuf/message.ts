/**
 * A value as JSON has it. A `word` is a text that repeats from object to object; `time` is a `meta.v1.Time` and
 * `quantity` a `resource.Quantity`, which are messages of their own. A `foreignTime` is not the API server's own, which
 * stores any: it is null where RFC 3339 does not have it, and not an error, by which one kubelet made all nodes unreadable.
 */
type Scalar = "text" | "word" | "integer" | "boolean" | "time" | "foreignTime" | "quantity" | "bytes";

export type ValueType = Scalar | Message;

/**
 * Presence of a field in JSON. `filled`: unless its value is the zero value, Go's `omitempty`. `always`: with the zero value
 * where the message lacks it. `set`: where the message has it, a pointer in Go. `required`: a message without it is broken.
 */
type Presence = "filled" | "always" | "set" | "required";

interface FieldSpec {
  readonly name: string;
  readonly type: ValueType;
  readonly form: "single" | "list" | "map";
  readonly presence: Presence;
}

export interface Field extends FieldSpec {
  /** Of those that the object has in any case, each has its own bit; 0 for others. */
  readonly bit: number;
  /** The value that JSON omits. */
  readonly omitted: unknown;
}

export interface Message {
  /** By tag: eight times the field number and the wire type. */
  readonly fields: readonly (Field | undefined)[];
  /** Numbers of the fields. Others are skipped. */
  readonly numbers: ReadonlySet<number>;
  /** Those that the object has in any case. */
  readonly constant: readonly Field[];
  /** Their bits. */
  readonly constantBits: number;
}

export const wireTypes = { varint: 0, delimited: 2 } as const;

/** The zero values of Go as JSON has them. */
export const zeros = {
  text: "",
  word: "",
  integer: 0,
  boolean: false,
  time: null,
  foreignTime: null,
  quantity: "0",
  bytes: Buffer.alloc(0),
} as const;

const nothing = Symbol("no value");

/** Fields by their numbers in the `.proto` file. */
export function message(byNumber: Readonly<Record<number, FieldSpec>>): Message {
  const fields: (Field | undefined)[] = [];
  const constant: Field[] = [];
  for (const [number, spec] of Object.entries(byNumber)) {
    const { type, form, presence } = spec;
    const isConstant = presence === "always" || presence === "required";
    const omitted = presence === "filled" && form === "single" && typeof type === "string" ? zeros[type] : nothing;
    const field = { ...spec, bit: isConstant ? 1 << constant.length : 0, omitted };
    if (isConstant) constant.push(field);
    const wireType = type === "integer" || type === "boolean" ? wireTypes.varint : wireTypes.delimited;
    fields[(Number(number) << 3) | wireType] = field;
  }
  return {
    fields: Array.from(fields),
    numbers: new Set(Object.keys(byNumber).map(Number)),
    constant,
    constantBits: (1 << constant.length) - 1,
  };
}

const single =
  (presence: Presence) =>
  (name: string, type: ValueType): FieldSpec => ({ name, type, form: "single", presence });

export const filled = single("filled");
export const always = single("always");
export const set = single("set");
export const required = single("required");
export const list = (name: string, type: ValueType): FieldSpec => ({ name, type, form: "list", presence: "filled" });
export const map = (name: string, type: ValueType): FieldSpec => ({ name, type, form: "map", presence: "filled" });
