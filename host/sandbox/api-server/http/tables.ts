import type { ApiObject } from "../json.ts";
import type { Resource } from "../resource.ts";

const headers = new WeakMap<Resource, string>();

/** The column definitions of a kind's table, in JSON. */
export function tableHeader(resource: Resource): string {
  const known = headers.get(resource);
  if (known !== undefined) return known;
  const header = JSON.stringify(
    resource.columns.map(({ name, type = "string", wide }) => ({
      name,
      type,
      format: name === "Name" ? "name" : "",
      description: `${name} of the ${resource.kind}`,
      priority: wide ? 1 : 0,
    })),
  );
  headers.set(resource, header);
  return header;
}

/** One row; `object` is the JSON that goes with it. */
export function tableRow(resource: Resource, object: ApiObject, now: number, embedded: string): string {
  const cells = JSON.stringify(resource.columns.map((column) => column.cell(object, now)));
  return `{"cells":${cells},"object":${embedded}}`;
}
