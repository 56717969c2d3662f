import {
  ApiError,
  type CloudWrite,
  keyOf,
  type KindRef,
  kinds,
  type KubeClient,
  type KubeObject,
  messageOf,
  type ObjectName,
  type PatchType,
} from "cloud-controller-host/sdk";

import type { FieldChange } from "../../changes/fields.ts";
import { objectChanges, patchChanges } from "../../changes/objects.ts";

type Write = Omit<CloudWrite, "change">;

export interface RecordedClientOptions {
  /** An object as a watch last showed it. */
  readonly find: (kind: KindRef, name: ObjectName) => KubeObject | undefined;
  readonly record: (write: Write, fields: readonly FieldChange[]) => void;
}

/** A client whose writes are recorded with what they change, however they end. */
export function recordedClient(client: KubeClient, { find, record }: RecordedClientOptions): KubeClient {
  const recorded = async <T>(
    operation: string,
    resource: string,
    changes: () => readonly FieldChange[],
    write: () => Promise<T>,
  ): Promise<T> => {
    const started = performance.now();
    // Before the write: its watch event may come before its reply.
    const fields = orNone(changes);
    const done = (outcome: Pick<Write, "error" | "status">): void =>
      record({ operation, resource, ...outcome, milliseconds: performance.now() - started }, fields);
    try {
      const result = await write();
      done({});
      return result;
    } catch (error) {
      done(failureOf(error));
      throw error;
    }
  };
  return {
    get: (kind, name, options) => client.get(kind, name, options),
    list: (kind, options) => client.list(kind, options),
    create: (kind, object, options) =>
      recorded(
        "create",
        nameOf(kind, object),
        () => objectChanges(undefined, object),
        () => client.create(kind, object, options),
      ),
    replace: (kind, object, options) =>
      recorded(
        "replace",
        nameOf(kind, object, options),
        () => replaceChanges(find(kind, objectName(object)), object),
        () => client.replace(kind, object, options),
      ),
    patch: (kind, name, type, body, options) =>
      recorded(
        "patch",
        nameOf(kind, { metadata: named(name) }, options),
        () => changesOf(find(kind, name), type, body),
        () => client.patch(kind, name, type, body, options),
      ),
    delete: (kind, name, options) =>
      recorded("delete", nameOf(kind, { metadata: named(name) }), none, () => client.delete(kind, name, options)),
    deleteCollection: (kind, options) =>
      recorded("deleteCollection", kind.kind, none, () => client.deleteCollection(kind, options)),
    evict: (pod, options) =>
      recorded("evict", nameOf(kinds.Pod, { metadata: named(pod) }), none, () => client.evict(pod, options)),
  };
}

const none = (): readonly FieldChange[] => [];

/** A record is never the reason why a write is not sent. */
function orNone(changes: () => readonly FieldChange[]): readonly FieldChange[] {
  try {
    return changes();
  } catch {
    return [];
  }
}

const replaceChanges = (before: KubeObject | undefined, after: KubeObject): readonly FieldChange[] =>
  before === undefined ? [] : objectChanges(before, after);

const changesOf = (before: KubeObject | undefined, type: PatchType, body: unknown): readonly FieldChange[] =>
  before === undefined ? [] : patchChanges({ ...before }, type, body);

const named = ({ name, namespace }: ObjectName) => ({ name, ...(namespace !== undefined && { namespace }) });

const objectName = ({ metadata }: KubeObject): ObjectName => ({
  name: metadata?.name ?? "",
  namespace: metadata?.namespace,
});

function nameOf(kind: KindRef, object: KubeObject, options: { readonly subresource?: string } = {}): string {
  const part = options.subresource === undefined ? "" : ` (${options.subresource})`;
  return `${kind.kind} ${keyOf(object)}${part}`;
}

const failureOf = (error: unknown): Pick<CloudWrite, "error" | "status"> => ({
  error: messageOf(error),
  ...(error instanceof ApiError && { status: error.status }),
});
