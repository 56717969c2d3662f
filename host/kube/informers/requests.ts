import type { KindRef, ListOptions } from "cloud-controller-host/sdk";

import type { ApiRequest } from "../connection/transport.ts";
import { acceptOf, pathOf } from "../connection/wire.ts";

/** Selection of the watched objects of a kind. Empty strings and absent fields select everything. */
export interface Selection {
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  readonly metadataOnly?: boolean | undefined;
}

/** The server ends a watch after a random time in [5 min, 10 min), so that watches do not end all at once. */
const watchSeconds = { least: 300, spread: 300 };

/** Equal for selections that one watch serves. */
export const watchKeyOf = (kind: KindRef, selection: Selection): string =>
  JSON.stringify([
    kind.group,
    kind.version,
    kind.plural,
    selection.namespace ?? "",
    selection.labelSelector ?? "",
    selection.fieldSelector ?? "",
    selection.metadataOnly ?? false,
  ]);

/** A selection as lists take it. */
export const listOptions = (
  selection: Selection,
): Pick<ListOptions, "namespace" | "labelSelector" | "fieldSelector" | "metadataOnly"> => ({
  ...(selection.namespace && { namespace: selection.namespace }),
  ...(selection.labelSelector && { labelSelector: selection.labelSelector }),
  ...(selection.fieldSelector && { fieldSelector: selection.fieldSelector }),
  ...(selection.metadataOnly && { metadataOnly: true }),
});

/** The watch of a selection that continues from a version. */
export const watchRequest = (kind: KindRef, selection: Selection, from: string, protobuf = false): ApiRequest => ({
  method: "GET",
  path: pathOf(kind, { namespace: selection.namespace }),
  ...acceptOf("object", { metadataOnly: selection.metadataOnly, protobuf }),
  query: {
    watch: "true",
    allowWatchBookmarks: "true",
    resourceVersion: from,
    timeoutSeconds: String(Math.floor(watchSeconds.least + Math.random() * watchSeconds.spread)),
    labelSelector: selection.labelSelector || undefined,
    fieldSelector: selection.fieldSelector || undefined,
  },
  stream: true,
});
