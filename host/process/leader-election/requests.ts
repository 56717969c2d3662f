import {
  ApiError,
  type Clock,
  CodedError,
  kinds,
  type KubeClient,
  type Lease,
  type ObjectName,
} from "cloud-controller-host/sdk";

export interface LeaseRequestOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly name: ObjectName;
  /** Time limit of one request. */
  readonly requestTimeMs: number;
  /** Annotations that each write sets. */
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Signals that end an attempt early. After an aborted write the holder is unknown, so a clean stop aborts only reads. */
export interface LockSignals {
  /** A leader's attempt: a lease that another candidate has held in between is not acquired again. */
  readonly renewal?: boolean;
  readonly reads?: AbortSignal;
  readonly writes?: AbortSignal;
}

export const isAborted = ({ reads, writes }: LockSignals): boolean =>
  (reads?.aborted ?? false) || (writes?.aborted ?? false);

/** 409 in either form: the object was changed (Conflict) or created (AlreadyExists) by another candidate first. */
export const isLostRace = (error: unknown): boolean => error instanceof ApiError && error.status === 409;

/** Requests for one Lease. Each ends with its signal or at its time limit, even if the client ignores its signal. */
export class LeaseRequests {
  readonly #options: LeaseRequestOptions;

  constructor(options: LeaseRequestOptions) {
    this.#options = options;
  }

  get(signal?: AbortSignal): Promise<Lease> {
    const { client, name } = this.#options;
    return this.#limited("get", (limited) => client.get(kinds.Lease, name, { signal: limited }), signal);
  }

  create(lease: Lease, signal?: AbortSignal): Promise<Lease> {
    const { client } = this.#options;
    const annotated = this.#annotated(lease);
    return this.#limited("create", (limited) => client.create(kinds.Lease, annotated, { signal: limited }), signal);
  }

  replace(lease: Lease, signal?: AbortSignal): Promise<Lease> {
    const { client } = this.#options;
    const annotated = this.#annotated(lease);
    return this.#limited("replace", (limited) => client.replace(kinds.Lease, annotated, { signal: limited }), signal);
  }

  #annotated(lease: Lease): Lease {
    const { annotations } = this.#options;
    if (annotations === undefined) return lease;
    const { metadata } = lease;
    return { ...lease, metadata: { ...metadata, annotations: { ...metadata?.annotations, ...annotations } } };
  }

  async #limited<T>(verb: string, send: (signal: AbortSignal) => Promise<T>, signal?: AbortSignal): Promise<T> {
    const { clock, requestTimeMs } = this.#options;
    const late = new AbortController();
    const over = new AbortController();
    const ending = signal === undefined ? late.signal : AbortSignal.any([signal, late.signal]);
    const failed = new Promise<never>((_, reject) => {
      ending.addEventListener("abort", () => reject(ending.reason), { signal: over.signal });
    });
    void clock.sleep(requestTimeMs, over.signal).then(() => {
      if (!over.signal.aborted)
        late.abort(new CodedError("LeaseTimeout", `no answer to ${verb} within ${requestTimeMs / 1000} s`));
      return undefined;
    });
    try {
      ending.throwIfAborted();
      return await Promise.race([send(ending), failed]);
    } finally {
      over.abort();
    }
  }
}
