import {
  ApiError,
  type Clock,
  type CloudWrite,
  isAborted,
  keyOf,
  type KindRef,
  kinds,
  type KubeClient,
  type KubeObject,
  messageOf,
  type ObjectName,
} from "cloud-controller-host/sdk";

/** One write of a controller or of its cloud, as `/statusz/writes` shows it. It has no content: that may be secret. */
export interface WriteRecord extends CloudWrite {
  /** When it was sent, RFC 3339. */
  readonly at: string;
  readonly generation: number;
  /** The client name of the controller, or of the cloud. */
  readonly controller: string;
  readonly system: "cloud" | "kubernetes";
}

/** About the writes of a day of a cluster at rest, or of a minute in which hundreds of nodes join. */
const capacity = 1_000;

/** The latest writes of this process, oldest first. It outlives reloads. */
export class WriteLog {
  readonly #clock: Pick<Clock, "now">;
  readonly #records: WriteRecord[] = [];
  #oldest = 0;

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  get records(): readonly WriteRecord[] {
    return [...this.#records.slice(this.#oldest), ...this.#records.slice(0, this.#oldest)];
  }

  add(source: Pick<WriteRecord, "controller" | "generation" | "system">, write: CloudWrite): void {
    const at = new Date(this.#clock.now() - write.milliseconds).toISOString();
    const record = { at, ...source, ...write, milliseconds: Math.round(write.milliseconds) };
    if (this.#records.length < capacity) this.#records.push(record);
    else {
      this.#records[this.#oldest] = record;
      this.#oldest = (this.#oldest + 1) % capacity;
    }
  }

  /** Wraps a controller's client so that its writes are recorded. */
  of(client: KubeClient, controller: string, generation: number): KubeClient {
    const recorded = async <T>(operation: string, resource: string, write: () => Promise<T>): Promise<T> => {
      const started = performance.now();
      const done = (outcome: Pick<CloudWrite, "error" | "status">): void =>
        this.add(
          { controller, generation, system: "kubernetes" },
          { operation, resource, ...outcome, milliseconds: performance.now() - started },
        );
      try {
        const result = await write();
        done({});
        return result;
      } catch (error) {
        if (!isAborted(error)) done(failureOf(error));
        throw error;
      }
    };
    return {
      get: (kind, name, options) => client.get(kind, name, options),
      list: (kind, options) => client.list(kind, options),
      create: (kind, object, options) =>
        recorded("create", nameOf(kind, object), () => client.create(kind, object, options)),
      replace: (kind, object, options) =>
        recorded("replace", nameOf(kind, object, options), () => client.replace(kind, object, options)),
      patch: (kind, name, type, body, options) =>
        recorded("patch", nameOf(kind, { metadata: named(name) }, options), () =>
          client.patch(kind, name, type, body, options),
        ),
      delete: (kind, name, options) =>
        recorded("delete", nameOf(kind, { metadata: named(name) }), () => client.delete(kind, name, options)),
      deleteCollection: (kind, options) =>
        recorded("deleteCollection", kind.kind, () => client.deleteCollection(kind, options)),
      evict: (pod, options) =>
        recorded("evict", nameOf(kinds.Pod, { metadata: named(pod) }), () => client.evict(pod, options)),
    };
  }
}

const named = ({ name, namespace }: ObjectName) => ({ name, ...(namespace !== undefined && { namespace }) });

function nameOf(kind: KindRef, object: KubeObject, options: { readonly subresource?: string } = {}): string {
  const part = options.subresource === undefined ? "" : ` (${options.subresource})`;
  return `${kind.kind} ${keyOf(object)}${part}`;
}

const failureOf = (error: unknown): Pick<CloudWrite, "error" | "status"> => ({
  error: messageOf(error),
  ...(error instanceof ApiError && { status: error.status }),
});
