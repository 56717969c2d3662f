import { badRequest, unprocessable } from "../access/status.ts";
import { equal, isList, isObject, type Json, without } from "../json.ts";

/** More operations than this are refused, as the API server does. */
const maxOperations = 10_000;

interface Operation {
  readonly op: string;
  readonly path: readonly string[];
  readonly from: readonly string[];
  readonly value: Json | undefined;
}

/** RFC 6902. Throws a 422 when a path is not there or a test fails: then nothing has been changed. */
export function jsonPatch(target: Json, patch: Json): Json {
  if (!isList(patch)) throw badRequest("a JSON patch must be a list of operations");
  if (patch.length > maxOperations) throw badRequest(`a JSON patch may have at most ${maxOperations} operations`);
  return patch.map(parse).reduce(apply, target);
}

function parse(operation: Json): Operation {
  if (!isObject(operation)) throw badRequest("each operation of a JSON patch must be an object");
  const { op, path, from, value } = operation;
  if (typeof op !== "string" || typeof path !== "string")
    throw badRequest('each operation of a JSON patch needs "op" and "path"');
  if ((op === "move" || op === "copy") && typeof from !== "string") throw badRequest(`"${op}" needs "from"`);
  return { op, path: pointer(path), from: typeof from === "string" ? pointer(from) : [], value };
}

function pointer(text: string): readonly string[] {
  if (text === "") return [];
  if (!text.startsWith("/")) throw badRequest(`${JSON.stringify(text)} is not a JSON pointer`);
  return text
    .slice(1)
    .split("/")
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function apply(target: Json, { op, path, from, value }: Operation): Json {
  const needed = (): Json => {
    if (value === undefined) throw badRequest(`"${op}" needs "value"`);
    return value;
  };
  switch (op) {
    case "add":
      return change(target, path, "add", needed());
    case "replace":
      return change(target, path, "replace", needed());
    case "remove":
      return change(target, path, "remove", null);
    case "copy":
      return change(target, path, "add", read(target, from));
    case "move":
      return change(change(target, from, "remove", null), path, "add", read(target, from));
    case "test":
      if (!equal(readOrNull(target, path, needed()), needed()))
        throw unprocessable(`the test of /${path.join("/")} in the JSON patch failed`);
      return target;
    default:
      throw badRequest(`"${op}" is not an operation of JSON patch`);
  }
}

const missing = (path: readonly string[]): Error =>
  unprocessable(`the JSON patch names /${path.join("/")}, which is not there`);

function read(target: Json, path: readonly string[]): Json {
  let at: Json | undefined = target;
  for (const key of path) {
    if (isList(at)) at = at[indexIn(at, key, at.length - 1)];
    else at = isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined;
    if (at === undefined) throw missing(path);
  }
  return at;
}

/** A test for null passes for an absent member of an existing object, as in the API server's library. */
function readOrNull(target: Json, path: readonly string[], wanted: Json): Json {
  const parent = wanted === null && path.length > 0 ? read(target, path.slice(0, -1)) : null;
  const key = path.at(-1) ?? "";
  return isObject(parent) && !Object.hasOwn(parent, key) ? null : read(target, path);
}

function indexIn(list: readonly Json[], key: string, last: number): number {
  const index = /^(0|[1-9]\d*)$/.test(key) ? Number(key) : Number.NaN;
  if (!(index <= last)) throw unprocessable(`${JSON.stringify(key)} is not an index of a list of ${list.length}`);
  return index;
}

type Action = "add" | "replace" | "remove";

/** A copy of `target` with one value changed; the rest is shared. */
function change(target: Json, path: readonly string[], action: Action, value: Json): Json {
  const [key, ...rest] = path;
  if (key === undefined) return value;
  if (isList(target)) return changeList(target, key, rest, action, value);
  if (!isObject(target)) throw missing(path);
  const below = Object.hasOwn(target, key) ? target[key] : undefined;
  if (below === undefined && (rest.length > 0 || action !== "add")) throw missing(path);
  if (rest.length > 0) return { ...target, [key]: change(below ?? null, rest, action, value) };
  if (action !== "remove") return { ...target, [key]: value };
  return without(target, key);
}

function changeList(list: readonly Json[], key: string, rest: readonly string[], action: Action, value: Json): Json {
  if (rest.length > 0) {
    const index = indexIn(list, key, list.length - 1);
    return list.with(index, change(list[index] ?? null, rest, action, value));
  }
  if (action === "add") return list.toSpliced(key === "-" ? list.length : indexIn(list, key, list.length), 0, value);
  const index = indexIn(list, key, list.length - 1);
  return action === "replace" ? list.with(index, value) : list.toSpliced(index, 1);
}
