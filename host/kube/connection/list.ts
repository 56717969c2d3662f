import {
  ApiError,
  CodedError,
  isObject,
  type KindRef,
  type KubeObject,
  type ListOptions,
} from "cloud-controller-host/sdk";

import type { Transport } from "./transport.ts";
import { acceptOf, documentOf, objectOf, pathOf, textAt } from "./wire.ts";

const pageSize = "500";

export interface ReadOptions<T extends KubeObject> extends ListOptions<T> {
  /** The reply may be in protobuf, of which nothing is read that the compaction of informers drops. */
  readonly protobuf?: boolean;
}

export interface Listing<T extends KubeObject> {
  readonly items: readonly T[];
  /** The resourceVersion to watch from. */
  readonly resourceVersion: string;
}

/**
 * Lists a collection page by page. If the pages expire before the last one is read, everything is read again in a
 * single request. upstream: client-go `tools/pager`, `FullListIfExpired`.
 */
export async function listAll<T extends KubeObject>(
  transport: Transport,
  kind: KindRef<T>,
  options: ReadOptions<T>,
): Promise<Listing<T>> {
  let page = await readPage(transport, kind, options, { limit: pageSize });
  const items = [...page.items];
  while (page.next !== "") {
    try {
      page = await readPage(transport, kind, options, { limit: pageSize, continue: page.next });
    } catch (error) {
      if (error instanceof ApiError && error.status === 410) return readPage(transport, kind, options, {});
      throw error;
    }
    items.push(...page.items);
  }
  return { items, resourceVersion: page.resourceVersion };
}

/** The version that a collection has come to: a consistent read of the metadata of one object. */
export async function latestVersion(transport: Transport, kind: KindRef, options: ListOptions): Promise<string> {
  const page = await readPage(transport, kind, { ...options, metadataOnly: true }, { limit: "1" });
  return page.resourceVersion;
}

interface Page<T extends KubeObject> extends Listing<T> {
  /** The continue token of the next page, empty on the last one. */
  readonly next: string;
}

async function readPage<T extends KubeObject>(
  transport: Transport,
  kind: KindRef<T>,
  options: ReadOptions<T>,
  paging: { readonly limit?: string; readonly continue?: string },
): Promise<Page<T>> {
  const { namespace, labelSelector, fieldSelector, signal, trim } = options;
  const response = await transport.send({
    method: "GET",
    path: pathOf(kind, { namespace }),
    ...acceptOf("list", options),
    query: { labelSelector: labelSelector || undefined, fieldSelector: fieldSelector || undefined, ...paging },
    signal,
  });
  const { items, metadata } = listOf(kind, await documentOf(response));
  const objects = items.map((item) => objectOf(kind, item));
  if (trim !== undefined) for (const object of objects) trim(object);
  return {
    items: objects,
    resourceVersion: textAt(metadata, "resourceVersion"),
    next: textAt(metadata, "continue"),
  };
}

/**
 * A reply of any other shape is an error and never an empty collection: an object that is missing from a list counts as
 * deleted. An empty list may have `items: null`. A custom resource may name its list's kind itself.
 */
function listOf(
  kind: KindRef,
  document: unknown,
): { readonly items: readonly unknown[]; readonly metadata: Readonly<Record<string, unknown>> } {
  const list = isObject(document) ? document : {};
  const { items = null, metadata } = list;
  const found = textAt(list, "kind") || "unknown";
  const wrong = (what: string) =>
    new CodedError("UnexpectedReply", `the API server's reply is not a list of ${kind.kind}: ${what}`);
  if (!found.endsWith("List")) throw wrong(`its kind is ${found}`);
  if (!isObject(metadata) || textAt(metadata, "resourceVersion") === "") throw wrong("it has no resourceVersion");
  if (items !== null && !Array.isArray(items)) throw wrong("its items are not a list");
  return { items: items ?? [], metadata };
}
