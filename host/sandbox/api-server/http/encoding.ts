import type { Resource } from "../resource.ts";
import { notAcceptable } from "../status.ts";
import type { Stored } from "../store/stored.ts";
import { tableHeader, tableRow } from "./tables.ts";

/** How objects are written into a reply: as they are, as rows of a table, or their metadata only. */
export interface Encoding {
  /** Two encodings of one kind and one name write the same text. */
  readonly name: string;
  object(stored: Stored): string;
  /** `first` says that the reply or the watch has written nothing yet. */
  event(stored: Stored, first: boolean): string;
  /** An object that says how far the watch has come and nothing else. `metadata` is JSON. */
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
