import { isObject } from "cloud-controller-host/sdk";

import type { JsonObject } from "../../json.ts";
import compute from "./compute.json" with { type: "json" };
import network from "./network.json" with { type: "json" };

type Definitions = Readonly<Record<string, Readonly<Record<string, string>>>>;

interface Document {
  readonly types: Readonly<Record<string, string>>;
  readonly definitions: Definitions;
}

/** A value: of a basic type, one of some words, an object with a definition, or a list or map of values. */
type Value =
  | { readonly kind: "string" | "integer" | "number" | "boolean" | "object" }
  | { readonly kind: "words"; readonly words: ReadonlySet<unknown> }
  | { readonly kind: "definition"; readonly name: string }
  | { readonly kind: "list" | "map"; readonly item: Value };

interface Member {
  readonly required: boolean;
  readonly readOnly: boolean;
  readonly value: Value;
}

/** The definition of an object: its members by name. */
export interface Definition {
  readonly name: string;
  readonly members: ReadonlyMap<string, Member>;
  /** The definition of another name of the same document. */
  readonly other: (name: string) => Definition;
}

const basic = ["string", "integer", "number", "boolean"] as const;

function parseValue(text: string): Value {
  if (text.startsWith("[]")) return { kind: "list", item: parseValue(text.slice(2)) };
  if (text.startsWith("{}")) return { kind: "map", item: parseValue(text.slice(2)) };
  if (text.startsWith("@")) return { kind: "definition", name: text.slice(1) };
  if (text.startsWith("="))
    return {
      kind: "words",
      words: new Set<unknown>(text.slice(1).split("|")),
    };
  return { kind: basic.find((one) => one === text) ?? "object" };
}

function parseMember(text: string): Member {
  const [, marks = "", value = ""] = /^([!-]*)(.*)$/u.exec(text) ?? [];
  return { required: marks.includes("!"), readOnly: marks.includes("-"), value: parseValue(value) };
}

function definitionsOf({ definitions }: Document): (name: string) => Definition {
  const parsed = new Map<string, Definition>();
  const other = (name: string): Definition => {
    const known = parsed.get(name);
    if (known !== undefined) return known;
    const members = Object.entries(definitions[name] ?? {}).map(([key, text]) => [key, parseMember(text)] as const);
    const definition = { name, members: new Map(members), other };
    parsed.set(name, definition);
    return definition;
  };
  return other;
}

const byType = new Map(
  [network, compute].flatMap((document: Document) => {
    const definition = definitionsOf(document);
    return Object.entries(document.types).map(([type, name]) => [type.toLowerCase(), definition(name)] as const);
  }),
);

/** The definition of a type such as `Microsoft.Network/loadBalancers`; undefined where none is published here. */
export const definitionOf = (type: string): Definition | undefined => byType.get(type.toLowerCase());

/** The service replaces what is read-only in a request, whatever it is. */
export type Direction = "request" | "reply";

/** The first thing in a body that its definition does not allow, in the words of ARM's parser. */
export function bodyProblem(
  definition: Definition,
  body: JsonObject,
  direction: Direction,
  path = "",
): string | undefined {
  for (const [name, value] of Object.entries(body)) {
    const member = definition.members.get(name);
    const inner = path === "" ? name : `${path}.${name}`;
    if (member === undefined)
      return `Could not find member '${name}' on object of type '${definition.name}'. Path '${inner}'.`;
    if (value === undefined || value === null || (member.readOnly && direction === "request")) continue;
    const problem = valueProblem(member.value, value, { definition, direction, path: inner });
    if (problem !== undefined) return problem;
  }
  for (const [name, { required }] of definition.members)
    if (required && (body[name] === undefined || body[name] === null))
      return `Required property '${name}' not found in JSON. Path '${path}'.`;
  return undefined;
}

interface Place {
  readonly definition: Definition;
  readonly direction: Direction;
  readonly path: string;
}

function valueProblem(expected: Value, value: unknown, place: Place): string | undefined {
  const { definition, direction, path } = place;
  switch (expected.kind) {
    case "list":
      return Array.isArray(value)
        ? firstProblem(value, (item, index) =>
            valueProblem(expected.item, item, { ...place, path: `${path}[${index}]` }),
          )
        : mismatch(value, "array", path);
    case "map":
      return isObject(value)
        ? firstProblem(Object.entries(value), ([key, item]) =>
            valueProblem(expected.item, item, { ...place, path: `${path}.${key}` }),
          )
        : mismatch(value, "object", path);
    case "definition":
      return isObject(value)
        ? bodyProblem(definition.other(expected.name), value, direction, path)
        : mismatch(value, expected.name, path);
    case "words":
      return expected.words.has(value) ? undefined : mismatch(value, "enum", path);
    case "integer":
      return Number.isInteger(value) ? undefined : mismatch(value, expected.kind, path);
    case "object":
      return undefined;
    default:
      return typeof value === expected.kind ? undefined : mismatch(value, expected.kind, path);
  }
}

function firstProblem<T>(items: readonly T[], problemOf: (item: T, index: number) => string | undefined) {
  for (const [index, item] of items.entries()) {
    const problem = problemOf(item, index);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

const mismatch = (value: unknown, expected: string, path: string): string =>
  `Error converting value ${JSON.stringify(value)} to type '${expected}'. Path '${path}'.`;
