import { notAcceptable } from "../access/status.ts";
import type { ApiObject } from "../json.ts";
import type { Resource } from "../resource.ts";
import type { Stored } from "../store/stored.ts";

/** Encodings of objects in a reply: whole, as table rows, or metadata only. */
export interface Encoding {
  /** Two encodings of one kind and one name write the same text. */
  readonly name: string;
  object(stored: Stored): string;
  /** `first` says that the reply or the watch has written nothing yet. */
  event(stored: Stored, first: boolean): string;
  /** The object of a bookmark. `metadata` is JSON. */
  bookmark(metadata: string): string;
  list(items: readonly Stored[], metadata: string): string;
}

/** The media types that a reply can have; anything else is answered with a 406. */
const acceptable = ["application/json", "application/yaml"];

/** The encoding that the client likes best of those that the server has. */
export function encodingFor(resource: Resource, accept: string, includeObject: string | null): Encoding {
  for (const range of accept.split(",")) {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim());
    if (type !== "" && type !== "*/*" && type !== "application/*" && type !== "application/json") continue;
    const as = parameters.find((parameter) => parameter.startsWith("as="))?.slice(3);
    const v1 = !parameters.includes("v=v1beta1");
    if (as === undefined) return plain(resource);
    if (as === "Table" && v1) return table(resource, includeObject ?? "Metadata");
    if (as.startsWith("PartialObjectMetadata") && v1) return metadataOnly;
  }
  if (accept === "") return plain(resource);
  throw notAcceptable(acceptable);
}

const apiVersionOf = ({ group, version }: Resource): string => (group === "" ? version : `${group}/${version}`);

const plain = (resource: Resource): Encoding => ({
  name: "",
  object: (stored) => stored.text,
  event: (stored) => stored.text,
  bookmark: (metadata) => `{"kind":"${resource.kind}","apiVersion":"${apiVersionOf(resource)}","metadata":${metadata}}`,
  list: (items, metadata) =>
    `{"kind":"${resource.kind}List","apiVersion":"${apiVersionOf(resource)}","metadata":${metadata},"items":[${items.map((stored) => stored.item).join(",")}]}\n`,
});

const partial = ({ object }: Stored): string =>
  JSON.stringify({ kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata: object.metadata });

const metadataOnly: Encoding = {
  name: "metadata",
  object: partial,
  event: partial,
  bookmark: (metadata) => `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":${metadata}}`,
  list: (items, metadata) =>
    `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":${metadata},"items":[${items.map(partial).join(",")}]}\n`,
};

function table(resource: Resource, includeObject: string): Encoding {
  const embedded = (stored: Stored): string =>
    includeObject === "None" ? "null" : includeObject === "Object" ? stored.text : partial(stored);
  const write = (items: readonly Stored[], metadata: string, columns: boolean): string => {
    const now = Date.now();
    const rows = items.map((stored) => tableRow(resource, stored.object, now, embedded(stored)));
    return `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":${metadata},"columnDefinitions":${columns ? tableHeader(resource) : "null"},"rows":[${rows.join(",")}]}`;
  };
  const own = (stored: Stored): string => `{"resourceVersion":"${stored.revision}"}`;
  return {
    name: `table/${includeObject}`,
    object: (stored) => write([stored], own(stored), true),
    event: (stored, first) => write([stored], own(stored), first),
    bookmark: (metadata) => write([], metadata, false),
    list: (items, metadata) => `${write(items, metadata, true)}\n`,
  };
}

const headers = new WeakMap<Resource, string>();

/** The column definitions of a kind's table, in JSON. */
function tableHeader(resource: Resource): string {
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
function tableRow(resource: Resource, object: ApiObject, now: number, embedded: string): string {
  const cells = JSON.stringify(resource.columns.map((column) => column.cell(object, now)));
  return `{"cells":${cells},"object":${embedded}}`;
}
