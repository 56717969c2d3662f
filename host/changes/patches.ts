import { CodedError, isObject, type JSONPatchOperation, type PatchType } from "cloud-controller-host/sdk";

/** A JSON object whose fields have not been looked at. */
export type Document = Readonly<Record<string, unknown>>;

/** Merge keys of the lists that controllers patch. Source: `patchMergeKey` of Kubernetes' API types. */
const mergeKeys: Readonly<Record<string, readonly string[]>> = {
  addresses: ["type"],
  conditions: ["type"],
  containers: ["name"],
  env: ["name"],
  ownerReferences: ["uid"],
  ports: ["port", "containerPort"],
  volumes: ["name"],
};
/** Lists of plain values to which a strategic patch adds. */
const mergedValues = new Set(["finalizers", "podCIDRs"]);
/** The directive of a strategic patch that removes plain values from such a list, before the name of the list. */
const removesValues = "$deleteFromPrimitiveList/";

/** Applies a patch as the API server would, but without defaults. For plans, which must not send it. */
export function patched(object: Document, type: PatchType, patch: unknown): Document {
  if (type === "json") return jsonPatched(object, operationsOf(patch));
  if (!isObject(patch)) throw new CodedError("InvalidObject", `a ${type} patch must be an object`);
  return merged(object, patch, type === "strategic");
}

function merged(object: Document, patch: Document, strategic: boolean): Document {
  const result: Record<string, unknown> = { ...object };
  for (const [key, value] of Object.entries(patch)) {
    if (strategic && key.startsWith(removesValues)) removeValues(result, key.slice(removesValues.length), value);
    else if (key.startsWith("$")) continue;
    else if (value === null) delete result[key];
    else if (isObject(value)) result[key] = mergedObject(result[key], value, strategic);
    else if (strategic && Array.isArray(value)) result[key] = mergedList(key, result[key], value);
    else result[key] = value;
  }
  return result;
}

/** A list that becomes empty is removed, as the API server does. */
function removeValues(from: Record<string, unknown>, key: string, values: unknown): void {
  const present: unknown = from[key];
  if (!Array.isArray(present) || !Array.isArray(values)) return;
  const rest = present.filter((item: unknown) => !values.includes(item));
  if (rest.length > 0) from[key] = rest;
  else delete from[key];
}

function mergedObject(before: unknown, patch: Document, strategic: boolean): Document {
  if (strategic && patch["$patch"] === "replace") return merged({}, patch, true);
  return merged(isObject(before) ? before : {}, patch, strategic);
}

function mergedList(key: string, before: unknown, patch: readonly unknown[]): readonly unknown[] {
  const present: readonly unknown[] = Array.isArray(before) ? before : [];
  if (mergedValues.has(key)) return [...new Set([...present, ...patch])];
  const mergeKey = mergeKeys[key]?.find((name) => patch.some((item) => isObject(item) && name in item));
  if (mergeKey === undefined || patch.some((item) => isObject(item) && item["$patch"] === "replace"))
    return patch.filter((item) => !(isObject(item) && "$patch" in item));
  const items = new Map(present.filter(isObject).map((item) => [item[mergeKey], item]));
  for (const item of patch.filter(isObject))
    if (item["$patch"] === "delete") items.delete(item[mergeKey]);
    else items.set(item[mergeKey], merged(items.get(item[mergeKey]) ?? {}, item, true));
  return [...items.values()];
}

function operationsOf(patch: unknown): readonly JSONPatchOperation[] {
  if (Array.isArray(patch)) return patch;
  throw new CodedError("InvalidObject", "a JSON patch must be a list of operations");
}

function jsonPatched(object: Document, operations: readonly JSONPatchOperation[]): Document {
  let result: unknown = object;
  for (const operation of operations) {
    const path = operation.path
      .split("/")
      .slice(1)
      .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
    if (operation.op === "test") {
      if (!Bun.deepEquals(valueAt(result, path) ?? null, operation.value ?? null))
        throw new CodedError("PatchTestFailed", `the value at ${operation.path} has changed`);
    } else {
      result = withChange(result, path, operation);
    }
  }
  return isObject(result) ? result : object;
}

const valueAt = (from: unknown, path: readonly string[]): unknown =>
  path.reduce<unknown>((value, part) => {
    if (Array.isArray(value)) return value[Number(part)];
    return isObject(value) ? value[part] : undefined;
  }, from);

function withChange(from: unknown, [part = "", ...rest]: readonly string[], operation: JSONPatchOperation): unknown {
  const value = operation.op === "remove" ? undefined : operation.value;
  if (Array.isArray(from)) {
    const index = part === "-" ? from.length : Number(part);
    if (rest.length > 0) return from.with(index, withChange(from[index], rest, operation));
    const removes = operation.op === "add" ? 0 : 1;
    return from.toSpliced(index, removes, ...(operation.op === "remove" ? [] : [value]));
  }
  const object = isObject(from) ? from : {};
  if (rest.length > 0) return { ...object, [part]: withChange(object[part], rest, operation) };
  const { [part]: _removed, ...others } = object;
  return operation.op === "remove" ? others : { ...others, [part]: value };
}
