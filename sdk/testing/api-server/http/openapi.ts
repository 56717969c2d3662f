import type { Json, JsonObject } from "../json.ts";
import type { Resource } from "../resource.ts";
import type { RecordSchema, ScalarType, Schema } from "../schema/schema.ts";

const refPrefix = "#/components/schemas/";

const scalars: Readonly<Record<ScalarType, JsonObject>> = {
  string: { type: "string" },
  integer: { type: "integer", format: "int64" },
  boolean: { type: "boolean" },
  time: { type: "string", format: "date-time" },
  microTime: { type: "string", format: "date-time" },
  quantity: { type: "string" },
  intOrString: { type: "string", format: "int-or-string" },
  bytes: { type: "string", format: "byte" },
  any: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
};

/** The OpenAPI v3 documents of the kinds that are served, one for each group and version. */
export class OpenApi {
  readonly #resources: readonly Resource[];

  constructor(resources: readonly Resource[]) {
    this.#resources = resources;
  }

  /** The document below `/openapi/v3`; undefined for an unknown path. */
  document(path: string): JsonObject | undefined {
    if (path === "/openapi/v3") {
      const paths = [...new Set(this.#resources.map(pathOf))];
      return { paths: Object.fromEntries(paths.map((key) => [key, { serverRelativeURL: `/openapi/v3/${key}` }])) };
    }
    const resources = this.#resources.filter((resource) => `/openapi/v3/${pathOf(resource)}` === path);
    return resources.length === 0 ? undefined : documentOf(resources);
  }
}

/** The path of a group and version, without the leading slash. */
const pathOf = ({ group, version }: Resource): string => (group === "" ? `api/${version}` : `apis/${group}/${version}`);

function documentOf(resources: readonly Resource[]): JsonObject {
  const schemas: Record<string, JsonObject> = {};
  for (const { group, version, kind, schema } of resources) {
    define(schema, schemas);
    const own = schemas[schema.name] ?? {};
    schemas[schema.name] = { ...own, "x-kubernetes-group-version-kind": [{ group, version, kind }] };
  }
  return {
    openapi: "3.0.0",
    info: { title: "cloud-controller-host sandbox", version: "v1" },
    paths: Object.fromEntries(resources.flatMap(pathsOf)),
    components: { schemas },
  };
}

/** Printed by `kubectl explain`. */
const description =
  "The sandbox knows the type of each field; its meaning is in https://kubernetes.io/docs/reference/kubernetes-api/";

/** Writes a record and every record below it into `schemas`, each once. */
function define(schema: RecordSchema, schemas: Record<string, JsonObject>): void {
  if (schema.name in schemas) return;
  schemas[schema.name] = {};
  const properties = Object.fromEntries(
    Object.entries(schema.fields).map(([key, field]) => [key, property(field, schemas)]),
  );
  schemas[schema.name] = {
    type: "object",
    description,
    properties,
    ...(schema.open ? { "x-kubernetes-preserve-unknown-fields": true } : {}),
  };
}

function property(schema: Schema, schemas: Record<string, JsonObject>): JsonObject {
  switch (schema.type) {
    case "record":
      define(schema, schemas);
      return { allOf: [{ $ref: `${refPrefix}${schema.name}` }], default: {} };
    case "map":
      return { type: "object", additionalProperties: property(schema.values, schemas) };
    case "list":
      return {
        type: "array",
        items: property(schema.items, schemas),
        "x-kubernetes-list-type": schema.listType,
        ...(schema.keys.length === 0 ? {} : { "x-kubernetes-list-map-keys": schema.keys }),
        ...(schema.mergeKey === undefined ? {} : { "x-kubernetes-patch-strategy": "merge" }),
        ...(schema.mergeKey ? { "x-kubernetes-patch-merge-key": schema.mergeKey } : {}),
      };
    default:
      return scalars[schema.type];
  }
}

const queryParameter = (name: string): JsonObject => ({ name, in: "query", schema: { type: "string" } });
const writeParameters = ["dryRun", "fieldManager", "fieldValidation"].map(queryParameter);

/** Operations that kubectl looks up: with `fieldValidation` the server validates fields. */
function pathsOf(resource: Resource): readonly (readonly [string, Json])[] {
  const { group, version, kind, plural, namespaced } = resource;
  const identity = { "x-kubernetes-group-version-kind": { group, version, kind } };
  const operation = (action: string, parameters: readonly JsonObject[]): JsonObject => ({
    ...identity,
    "x-kubernetes-action": action,
    parameters,
    responses: { "200": { description: "OK" } },
  });
  const collection = `/${pathOf(resource)}/${namespaced ? "namespaces/{namespace}/" : ""}${plural}`;
  return [
    [collection, { get: operation("list", []), post: operation("post", writeParameters) }],
    [
      `${collection}/{name}`,
      {
        get: operation("get", []),
        put: operation("put", writeParameters),
        patch: operation("patch", [...writeParameters, queryParameter("force")]),
        delete: operation("delete", []),
      },
    ],
  ];
}
