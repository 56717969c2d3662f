import { compareResourceVersion, type KindRef, type KubeClient, type KubeObject } from "cloud-controller-host/sdk";

const keyOfKind = ({ group, plural }: KindRef): string => `${group}/${plural}`;

/**
 * Tracks the resourceVersions that watches must reach to have observed this process's own writes. A version
 * that is not a number is ignored.
 */
export class WriteTracker {
  readonly #latest = new Map<string, string>();

  /** Wraps a client so that its successful writes are tracked. */
  track(client: KubeClient): KubeClient {
    const noted = async <T extends KubeObject>(kind: KindRef<T>, write: Promise<T>): Promise<T> => {
      const written = await write;
      this.#note(kind, written.metadata?.resourceVersion);
      return written;
    };
    return {
      get: (kind, name, options) => client.get(kind, name, options),
      list: (kind, options) => client.list(kind, options),
      create: (kind, object, options) => noted(kind, client.create(kind, object, options)),
      replace: (kind, object, options) => noted(kind, client.replace(kind, object, options)),
      patch: (kind, name, type, body, options) => noted(kind, client.patch(kind, name, type, body, options)),
      // The reply to a delete carries no version, and a second delete finds nothing.
      delete: (kind, name, options) => client.delete(kind, name, options),
      deleteCollection: (kind, options) => client.deleteCollection(kind, options),
      evict: (pod, options) => client.evict(pod, options),
    };
  }

  /** True if a watch of the kind at this version has observed all tracked writes. */
  isObserved(kind: KindRef, version: string): boolean {
    return compareResourceVersion(version, this.#latest.get(keyOfKind(kind))) !== -1;
  }

  #note(kind: KindRef, version = "0"): void {
    const key = keyOfKind(kind);
    if (compareResourceVersion(version, this.#latest.get(key) ?? "0") === 1) this.#latest.set(key, version);
  }
}
