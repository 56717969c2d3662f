import { type TObject, type TSchema, Type } from "@sinclair/typebox";
import { Value, type ValueError, ValueErrorType } from "@sinclair/typebox/value";
import type { Decoded } from "cloud-controller-host/sdk";

import { readMapping } from "./document.ts";

/** The component that runs a controller; `*` stands for any. */
export interface ControllerLeader {
  readonly name: string;
  readonly component: string;
}

/** upstream: `LeaderMigrationConfiguration`, without the lock type, which is always a Lease. */
export interface LeaderMigration {
  /** Name of the Lease shared by the components. */
  readonly leaderName: string;
  readonly controllerLeaders: readonly ControllerLeader[];
}

const group = "controllermanager.config.k8s.io";
const kind = "LeaderMigrationConfiguration";
const closed = { additionalProperties: false } as const;

const text = Type.String({ minLength: 1 });
/** A valid object name. */
const leaseName = Type.String({ minLength: 1, pattern: "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" });
const fields = {
  apiVersion: text,
  kind: Type.Literal(kind),
  leaderName: leaseName,
  controllerLeaders: Type.Optional(Type.Array(Type.Object({ name: text, component: text }, closed))),
};
const stable = Type.Object(fields, closed);
const beta = Type.Object({ ...fields, resourceLock: Type.Literal("leases") }, closed);
/** By API version. `v1` has no field for the lock type. */
const schemas = new Map<string, typeof stable | typeof beta>([
  [`${group}/v1`, stable],
  [`${group}/v1beta1`, beta],
  [`${group}/v1alpha1`, beta],
]);

/**
 * Parses a migration config as strictly as upstream: no unknown, duplicate or differently cased fields. `source`
 * names the file in every problem. Source: kubernetes/controller-manager `pkg/leadermigration/config`.
 */
export function decodeMigration(content: string, source: string): Decoded<LeaderMigration> {
  const refuse = (problems: readonly string[]): Decoded<LeaderMigration> => ({
    ok: false,
    problems: problems.map((problem) => `${source}: ${problem}`),
  });
  const read = readMapping(content, `a ${kind}`);
  if (!read.ok) return refuse(read.problems.map((problem) => problem + aliasHint(content)));
  if (read.warnings.length > 0) return refuse(read.warnings.map((warning) => warning.replace(/;.*$/u, "")));
  const document = withoutNulls(read.value);
  const schema = schemas.get(String(Reflect.get(document, "apiVersion")));
  if (schema === undefined) return refuse(versionProblems(document));
  if (!Value.Check(schema, document)) return refuse(problemsOf(schema, document));
  const { leaderName, controllerLeaders = [] } = document;
  return { ok: true, value: { leaderName, controllerLeaders }, warnings: [] };
}

/** An unquoted star starts an alias in YAML. */
const aliasHint = (content: string): string =>
  /component:\s*\*/.test(content) ? '; write a bare star in quotes: component: "*"' : "";

/** Go treats null as an absent field. */
function withoutNulls(document: object): object {
  const isPresent = (_: string, value: unknown): unknown => value ?? undefined;
  return JSON.parse(JSON.stringify(document, isPresent));
}

const versionProblems = (document: object): readonly string[] => {
  const { apiVersion, kind: given }: { readonly apiVersion?: unknown; readonly kind?: unknown } = document;
  const known = [...schemas.keys()].join(", ");
  return [
    apiVersion === undefined
      ? `apiVersion is missing; known are ${known}`
      : `apiVersion ${shown(apiVersion)} is not known; known are ${known}`,
    ...(given === kind ? [] : [`kind must be ${kind}${given === undefined ? "" : `, got ${shown(given)}`}`]),
  ];
};

/** The first problem of each field. */
function problemsOf(schema: TObject, document: object): readonly string[] {
  const problems = new Map<string, string>();
  for (const error of Value.Errors(schema, document)) {
    const path = pathOf(error.path);
    if (!problems.has(path)) problems.set(path, `${path} ${sentences[error.type]?.(error) ?? plainSentence(error)}`);
  }
  return [...problems.values()];
}

/** `/controllerLeaders/0/name` → `controllerLeaders[0].name`. */
const pathOf = (pointer: string): string =>
  pointer
    .slice(1)
    .replaceAll(/\/(\d+)/g, "[$1]")
    .replaceAll("/", ".")
    .replaceAll("~1", "/");

/** Ends of sentences that begin with a field's path. */
const sentences: Partial<Record<ValueErrorType, (error: ValueError) => string>> = {
  [ValueErrorType.ObjectRequiredProperty]: () => "is missing",
  [ValueErrorType.StringMinLength]: () => "is missing",
  [ValueErrorType.StringPattern]: ({ value }) =>
    `must be a name of lower-case letters, digits, "-" and ".", got ${shown(value)}`,
  [ValueErrorType.ObjectAdditionalProperties]: ({ schema }) =>
    `is an unknown field; known are ${fieldsOf(schema).join(", ")}`,
  [ValueErrorType.Literal]: ({ schema, value }) =>
    value === "endpoints"
      ? 'must be "leases": locks in Endpoints are no longer supported; set leases here and in the config of every other component'
      : `must be ${shown(schema.const)}, got ${shown(value)}`,
};

const plainSentence = ({ schema, value }: ValueError): string => `must be of type ${schema.type}, got ${shown(value)}`;

const fieldsOf = (schema: TSchema): readonly string[] => Object.keys(schema["properties"] ?? {});

const shown = (value: unknown): string => JSON.stringify(value).slice(0, 80);
