import type { Static, TSchema } from "@sinclair/typebox";
import { Value, ValueErrorType } from "@sinclair/typebox/value";

import { suggestionFor } from "./suggestion.ts";
import { isObject } from "./values.ts";

/** A decoded value with warnings, or all problems at once. Both name keys as the user wrote them. */
export type Decoded<T> =
  | { readonly ok: true; readonly value: T; readonly warnings: readonly string[] }
  | { readonly ok: false; readonly problems: readonly string[]; readonly warnings?: readonly string[] };

/** upstream: `cloudprovider/config.CloudControllerManagerConfiguration`, completed. Durations are in milliseconds. */
export interface ComponentConfig {
  readonly generic: {
    readonly minResyncPeriodMs: number;
    readonly controllerStartIntervalMs: number;
    readonly controllers: readonly string[];
  };
  readonly kubeCloudShared: {
    readonly cloudProvider: string;
    readonly useServiceAccountCredentials: boolean;
    readonly allowUntaggedCloud: boolean;
    readonly routeReconciliationPeriodMs: number;
    readonly nodeMonitorPeriodMs: number;
    readonly clusterName: string;
    readonly clusterCIDR: string;
    readonly allocateNodeCIDRs: boolean;
    readonly cidrAllocatorType: string;
    readonly configureCloudRoutes: boolean;
  };
  readonly nodeController: {
    readonly concurrentNodeSyncs: number;
    readonly concurrentNodeStatusUpdates: number;
  };
  readonly serviceController: {
    readonly concurrentServiceSyncs: number;
    /** Empty: Services without a class. */
    readonly loadBalancerClass: string;
    /** A label selector; the empty one selects all. */
    readonly serviceSelector: string;
  };
  readonly nodeIPAMController: {
    readonly serviceClusterIPRange: string;
    readonly nodeCIDRMaskSizeIPv4: number;
    readonly nodeCIDRMaskSizeIPv6: number;
  };
  readonly nodeStatusUpdateFrequencyMs: number;
}

/** upstream: `config.CompletedConfig`, with the plugin's own options. */
export interface CompletedConfig<Own = unknown> {
  readonly componentConfig: ComponentConfig;
  featureEnabled(gate: string): boolean;
  /** The plugin's own options, decoded by its `configSchema`. */
  readonly own: Own;
}

/**
 * Decodes `input` by a schema: sets defaults and converts strings to numbers and booleans. A problem quotes the invalid
 * value, unless the schema marks it or a parent as `writeOnly`, which means secret.
 */
export function decode<S extends TSchema>(schema: S, input: unknown): Decoded<Static<S>> {
  const candidate = exact(input, Value.Convert(schema, Value.Default(schema, Value.Clone(input))));
  if (Value.Check(schema, candidate)) return { ok: true, value: candidate, warnings: [] };
  const seen = new Map<string, string>();
  for (const { type, path, message, value, schema: part } of Value.Errors(schema, candidate)) {
    const key = path.slice(1).replaceAll("/", ".") || "the document";
    if (seen.has(key)) continue;
    const received = mayShow(schema, path) ? described(value) : "";
    const expected = valuesOf(part) ?? `${message.charAt(0).toLowerCase()}${message.slice(1)}`;
    if (type === ValueErrorType.ObjectRequiredProperty) seen.set(key, `${key}: required, but not set`);
    else if (type === ValueErrorType.ObjectAdditionalProperties)
      seen.set(key, `${key}: unknown key${meant(path, part)}`);
    else seen.set(key, `${key}: ${expected}${received}`);
  }
  return { ok: false, problems: [...seen.values()] };
}

/** A conversion makes 1 of `1.9`, of `1e3` and of `true` for an integer: a number that was not written is left as it was given. */
function exact(given: unknown, converted: unknown): unknown {
  if (given === undefined) return converted;
  if (typeof converted === "number") {
    const isNumeral = typeof given === "number" || (typeof given === "string" && given.trim() !== "");
    return isNumeral && Number(given) === converted ? converted : given;
  }
  if (Array.isArray(converted))
    return converted.map((item, index): unknown => exact(Array.isArray(given) ? given[index] : given, item));
  // Only what JSON and YAML have: the fields of a date are not its own.
  if (!isObject(converted) || !isObject(given) || converted instanceof Date) return converted;
  return Object.fromEntries(Object.entries(converted).map(([key, item]) => [key, exact(given[key], item)]));
}

/** ` (did you mean directory?)` for the last key of the path where one of the object's differs by a slip or two. */
function meant(path: string, { properties = {} }: TSchema): string {
  const given = path.slice(path.lastIndexOf("/") + 1);
  return suggestionFor(given, Object.keys(properties), { maxDistance: Math.min(2, given.length - 1) });
}

/** The values of a union of literals; undefined for any other schema. */
function valuesOf({ anyOf }: TSchema): string | undefined {
  if (!Array.isArray(anyOf)) return undefined;
  const values: readonly unknown[] = anyOf.map((one: TSchema) => one["const"]);
  return values.includes(undefined) ? undefined : `expected ${values.map((one) => JSON.stringify(one)).join(" or ")}`;
}

/** Objects and lists are not quoted: they may contain a secret. */
function described(value: unknown): string {
  if (value === undefined) return "";
  if (Array.isArray(value)) return ", got a list";
  if (typeof value === "object" && value !== null) return ", got an object";
  return `, got ${JSON.stringify(value)?.slice(0, 80) ?? typeof value}`;
}

/** False for unknown keys too: they may be secrets under a misspelled name. */
function mayShow(schema: TSchema, path: string): boolean {
  let part: TSchema | undefined = schema;
  for (const key of path.split("/").slice(1)) {
    if (part === undefined || part["writeOnly"] === true) return false;
    const properties: Readonly<Record<string, TSchema>> = part["properties"] ?? {};
    part = part["type"] === "array" ? part["items"] : Object.hasOwn(properties, key) ? properties[key] : undefined;
  }
  return part !== undefined && part["writeOnly"] !== true;
}
