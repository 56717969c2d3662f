/** A JSON object whose fields have not been looked at yet. */
export type JsonObject = Readonly<Record<string, unknown>>;

export const objectAt = (from: JsonObject | undefined, key: string): JsonObject | undefined => {
  const value = from?.[key];
  return isObject(value) ? value : undefined;
};

export const stringAt = (from: JsonObject | undefined, key: string): string | undefined => {
  const value = from?.[key];
  return typeof value === "string" ? value : undefined;
};

/** The objects of an array field; empty if the field is not an array. */
export const objectsAt = (from: JsonObject | undefined, key: string): readonly JsonObject[] => {
  const value: unknown = from?.[key];
  return Array.isArray(value) ? value.filter(isObject) : [];
};

export const stringsAt = (from: JsonObject | undefined, key: string): readonly string[] => {
  const value: unknown = from?.[key];
  return Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
};

/** The value, or undefined where the text is not JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
import { isObject } from "cloud-controller-host/sdk";
