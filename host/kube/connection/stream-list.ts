import { ApiError, CodedError, isObject, type KindRef, type KubeObject } from "cloud-controller-host/sdk";

import { LinkedSignal } from "../../async/linked-signal.ts";
import { listAll, type Listing, type ReadOptions } from "./list.ts";
import type { Transport } from "./transport.ts";
import { watchEvents } from "./watch-events.ts";
import { acceptOf, objectOf, pathOf, statusError, textAt } from "./wire.ts";

/** Transports whose server has rejected a streaming list. */
const unsupported = new WeakSet<Transport>();
/** A stream that is silent for longer has lost its server. */
const idleLimitMs = 60_000;
const initialEventsEnd = "k8s.io/initial-events-end";

/**
 * The newest state of a collection, read object by object: each is trimmed before the next one is parsed, so that a list
 * of large objects never is in memory as a whole. A server without streaming lists is read page by page.
 * upstream: client-go `tools/cache.Reflector.watchList` (KEP-3157).
 */
export async function streamList<T extends KubeObject>(
  transport: Transport,
  kind: KindRef<T>,
  options: ReadOptions<T>,
): Promise<Listing<T>> {
  if (unsupported.has(transport)) return listAll(transport, kind, options);
  try {
    const listing = await readStream(transport, kind, options);
    if (listing !== undefined) return listing;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status === 429 || error.status >= 500) throw error;
    if (error.status === 422) unsupported.add(transport);
  }
  return listAll(transport, kind, options);
}

/** Undefined when the stream ends before all objects have been sent. */
async function readStream<T extends KubeObject>(
  transport: Transport,
  kind: KindRef<T>,
  options: ReadOptions<T>,
): Promise<Listing<T> | undefined> {
  const { namespace, labelSelector, fieldSelector, signal, trim } = options;
  using link = new LinkedSignal(signal);
  const response = await transport.send({
    method: "GET",
    path: pathOf(kind, { namespace }),
    ...acceptOf("object", options),
    query: {
      watch: "true",
      sendInitialEvents: "true",
      resourceVersionMatch: "NotOlderThan",
      allowWatchBookmarks: "true",
      timeoutSeconds: String(2 * (idleLimitMs / 1000)),
      labelSelector: labelSelector || undefined,
      fieldSelector: fieldSelector || undefined,
    },
    signal: link.signal,
    stream: true,
  });
  const stalled = (): CodedError => new CodedError("Timeout", `the list of ${kind.plural} has stalled`);
  const items = new Map<string, T>();
  link.setDeadline(idleLimitMs, stalled);
  for await (const batch of watchEvents(response)) {
    link.setDeadline(idleLimitMs, stalled);
    for (const event of batch) {
      const { type, object } = parseEvent(kind, event);
      if (type === "BOOKMARK") {
        const end = endOfInitialEvents(object);
        if (end !== undefined) return { items: [...items.values()], resourceVersion: end };
      } else collect(items, type, object, trim);
    }
  }
  return undefined;
}

function parseEvent<T extends KubeObject>(
  kind: KindRef<T>,
  event: unknown,
): { readonly type: string; readonly object: T } {
  const fields = isObject(event) ? event : {};
  const type = textAt(fields, "type");
  if (type === "ERROR") throw statusError(`list of ${kind.plural}`, 500, fields["object"]);
  return { type, object: objectOf(kind, fields["object"]) };
}

/** The resourceVersion of the bookmark that follows the last object. */
function endOfInitialEvents({ metadata }: KubeObject): string | undefined {
  if (metadata?.annotations?.[initialEventsEnd] !== "true") return undefined;
  if (metadata.resourceVersion) return metadata.resourceVersion;
  throw new CodedError("UnexpectedReply", "the end of the API server's list has no resourceVersion");
}

/** Changes may be mixed with the initial objects. */
function collect<T extends KubeObject>(
  items: Map<string, T>,
  type: string,
  object: T,
  trim: ((object: T) => void) | undefined,
): void {
  const key = `${object.metadata?.namespace ?? ""}/${object.metadata?.name ?? ""}`;
  if (type === "DELETED") items.delete(key);
  else if (type === "ADDED" || type === "MODIFIED") {
    trim?.(object);
    items.set(key, object);
  } else throw new CodedError("UnexpectedReply", `an event of type "${type}" in the API server's list`);
}
