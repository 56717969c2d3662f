import { expect, test } from "bun:test";

import { openApi, paths } from "../../../host/console/openapi.ts";
import { answers } from "../../../host/console/schema.ts";

test("the OpenAPI document has its version, and every answer with the schema that it names", () => {
  expect(openApi("v1.2.3")).toMatchObject({
    openapi: "3.1.0",
    info: { version: "v1.2.3" },
    components: { schemas: answers },
  });
  expect(new Set<string>(Object.values(paths).map(({ answer }) => answer))).toEqual(new Set(Object.keys(answers)));
});

test("a parameter of the OpenAPI document is required in a path, and optional in a query", () => {
  const required = { in: "path", required: true, schema: { type: "string" } };
  expect(paths["/services/{namespace}/{name}"].parameters).toEqual([
    { name: "namespace", ...required },
    { name: "name", ...required },
  ]);
  const inQuery = Object.values(paths)
    .flatMap(({ parameters }): readonly object[] => parameters)
    .map((parameter) => new Map<string, unknown>(Object.entries(parameter)))
    .filter((parameter) => parameter.get("in") === "query");
  const ofLists = ["services", "nodes", "writes"].flatMap(() => ["filter", "sort", "offset", "limit"]);
  expect(inQuery.map((parameter) => parameter.get("name"))).toEqual([...ofLists, "new", "row"]);
  expect(inQuery.filter((parameter) => parameter.has("required"))).toEqual([]);
});
