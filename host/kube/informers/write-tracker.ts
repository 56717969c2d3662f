import type { KindRef, KubeClient, KubeObject } from "cloud-controller-host/sdk";

const keyOfKind = ({ group, plural }: KindRef): string => `${group}/${plural}`;

/**
 * How far the watches must have come to show all that this process has written. Versions of one kind can be compared
 * as whole numbers (KEP-5504); one that is none says nothing and is left out.
 */
export class WriteTracker {
  readonly #latest = new Map<string, bigint>();

  /** The client, each successful write of which is noted. */
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
      // The reply tells no version of what is gone, and a second delete finds nothing.
      delete: (kind, name, options) => client.delete(kind, name, options),
    };
  }

  /** Whether a watch of the kind that has come to this version shows all that was written. */
  isObserved(kind: KindRef, version: string): boolean {
    const latest = this.#latest.get(keyOfKind(kind));
    const reached = numberOf(version);
    return latest === undefined || reached === undefined || reached >= latest;
  }

  #note(kind: KindRef, version: string | undefined): void {
    const written = numberOf(version);
    if (written === undefined) return;
    const key = keyOfKind(kind);
    const latest = this.#latest.get(key);
    if (latest === undefined || written > latest) this.#latest.set(key, written);
  }
}

const numberOf = (version = ""): bigint | undefined => (/^\d+$/.test(version) ? BigInt(version) : undefined);
