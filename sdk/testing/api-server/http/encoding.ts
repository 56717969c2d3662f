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
  /** `metadata` is JSON. */
  list(metadata: string): ListText;
}

/** A list in JSON: between `head` and `tail` are its items, separated by commas. */
export interface ListText {
  readonly head: string;
  readonly item: (stored: Stored) => string;
  readonly tail: string;
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
  list: (metadata) => ({
    head: `{"kind":"${resource.kind}List","apiVersion":"${apiVersionOf(resource)}","metadata":${metadata},"items":[`,
    item: (stored) => stored.item,
    tail: "]}\n",
  }),
});

const partial = ({ object }: Stored): string =>
  JSON.stringify({ kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata: object.metadata });

const metadataOnly: Encoding = {
  name: "metadata",
  object: partial,
  event: partial,
  bookmark: (metadata) => `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":${metadata}}`,
  list: (metadata) => ({
    head: `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":${metadata},"items":[`,
    item: partial,
    tail: "]}\n",
  }),
};

function table(resource: Resource, includeObject: string): Encoding {
  const embedded = (stored: Stored): string =>
    includeObject === "None" ? "null" : includeObject === "Object" ? stored.text : partial(stored);
  const head = (metadata: string, columns: boolean): string =>
    `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":${metadata},"columnDefinitions":${columns ? tableHeader(resource) : "null"},"rows":[`;
  const row = (stored: Stored, now = Date.now()): string => tableRow(resource, stored.object, now, embedded(stored));
  const write = (stored: Stored, columns: boolean): string => `${head(own(stored), columns)}${row(stored)}]}`;
  const own = (stored: Stored): string => `{"resourceVersion":"${stored.revision}"}`;
  return {
    name: `table/${includeObject}`,
    object: (stored) => write(stored, true),
    event: (stored, first) => write(stored, first),
    bookmark: (metadata) => `${head(metadata, false)}]}`,
    list(metadata) {
      const now = Date.now();
      return { head: head(metadata, true), item: (stored) => row(stored, now), tail: "]}\n" };
    },
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
