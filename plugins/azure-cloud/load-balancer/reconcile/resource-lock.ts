import {
  type Clock,
  type CloudContext,
  CodedError,
  isAlreadyExists,
  isNotFound,
  kinds,
  type KubeClient,
  type Lease,
  type Logger,
  messageOf,
  retryOnConflict,
} from "cloud-controller-host/sdk";

const name = "aks-managed-resource-locker";
const namespace = "kube-system";
const holder = "cloud-controller-manager";
const durationSeconds = 900;
const previousHolder = "aks-managed-resource-locker-previous-holder";
/** Annotation with the shards that hold it together, under the one name that AKS knows; separated by commas. */
const sharers = "cloud-controller-host/held-by-shards";

/** Another component holds the lock, or the Lease cannot be read or written. */
export class ResourceLockError extends CodedError {}

/**
 * The Lease by which AKS and this cloud take turns at writing load balancers. It is held while anything is in flight. A
 * Lease that another component holds and does not renew expires after 15 minutes.
 * Source: upstream `AzureResourceLocker`.
 */
export class ResourceLock {
  readonly #client: KubeClient;
  readonly #clock: Clock;
  /** The name among shards; undefined where there are none. */
  readonly #sharer: string | undefined;
  /** The Lease as it was taken last, until it is released. */
  #lease: Lease | undefined;
  #isHeld = false;
  /** After a request that failed, the Lease may be another one than the one that was taken. */
  #isUnsure = false;
  /** One request at a time: a release must not run into the next acquisition. */
  #last: Promise<unknown> = Promise.resolve();

  constructor({ client, clock, shard }: Pick<CloudContext, "client" | "clock" | "shard">) {
    this.#client = client;
    this.#clock = clock;
    this.#sharer = shard === "" ? "-" : shard;
  }

  /** True also after a release that failed. */
  get isLeft(): boolean {
    return this.#lease !== undefined;
  }

  /**
   * Takes it, or renews it in the second half of its time. Resolves with true when another component has held it since:
   * what is known of Azure may be out of date.
   */
  take(): Promise<boolean> {
    return this.#inTurn(async () => {
      if (this.#isHeld && !this.#isHalfOver()) return false;
      const changed = await reported("lock", () => this.#amongShards(() => this.#take()));
      const isNew = !this.#isHeld;
      this.#isHeld = true;
      return changed && isNew;
    });
  }

  /** To be repeated when it rejects. */
  release(): Promise<void> {
    return this.#inTurn(async () => {
      this.#isHeld = false;
      await reported("unlock", () => this.#amongShards(() => this.#giveBack()));
      this.#lease = undefined;
      this.#isUnsure = false;
    });
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#last.then(work);
    this.#last = next.catch(() => undefined);
    return next;
  }

  /** Shards write the Lease at the same time: a conflict is none of its failures. */
  #amongShards<T>(work: () => Promise<T>): Promise<T> {
    const retries = { clock: this.#clock, steps: this.#sharer === undefined ? 1 : 20, pauseMs: 50 };
    return retryOnConflict(retries, work);
  }

  /** The other shards that hold it; none once it has expired. */
  #others(lease: Lease): readonly string[] {
    const listed = this.#hasExpired(lease) ? [] : (lease.metadata?.annotations?.[sharers] ?? "").split(",");
    return listed.filter((one) => one !== "" && one !== this.#sharer);
  }

  #annotated({ metadata }: Lease, holders: readonly string[]): Lease["metadata"] {
    if (this.#sharer === undefined) return metadata;
    return { ...metadata, annotations: { ...metadata?.annotations, [sharers]: holders.join(",") } };
  }

  async #take(): Promise<boolean> {
    const lease = await this.#getOrCreate();
    if (!this.#hasExpired(lease) && lease.spec?.holderIdentity?.toLowerCase() !== holder)
      throw new Error(
        `lease has not expired yet, another component such as aks rp may be processing another request, this would be automatically recovered after the lease expires (held by ${lease.spec?.holderIdentity} until ${expiryOf(lease).toISOString()})`,
      );
    const now = microTime(this.#clock.now());
    const spec = { ...lease.spec, holderIdentity: holder, acquireTime: now, renewTime: now };
    const metadata = this.#annotated(lease, [...this.#others(lease), this.#sharer ?? ""]);
    this.#lease = await this.#client.replace(kinds.Lease, { ...lease, ...(metadata && { metadata }), spec });
    this.#isUnsure = false;
    const annotations = lease.metadata?.annotations;
    return annotations !== undefined && annotations[previousHolder]?.toLowerCase() !== holder;
  }

  async #giveBack(): Promise<void> {
    try {
      const isShared = this.#sharer !== undefined;
      const lease = this.#isUnsure || isShared ? await this.#client.get(kinds.Lease, { namespace, name }) : this.#lease;
      if (lease === undefined || this.#hasExpired(lease) || lease.spec?.holderIdentity !== holder) return;
      const others = this.#others(lease);
      const metadata = this.#annotated(lease, others);
      if (others.length > 0) {
        await this.#client.replace(kinds.Lease, { ...lease, ...(metadata && { metadata }) });
        return;
      }
      const annotations = { ...metadata?.annotations, [previousHolder]: holder };
      await this.#client.replace(kinds.Lease, {
        ...lease,
        metadata: { ...lease.metadata, annotations },
        spec: { ...lease.spec, holderIdentity: "" },
      });
    } catch (error) {
      this.#isUnsure = true;
      if (!isNotFound(error)) throw error;
    }
  }

  async #getOrCreate(): Promise<Lease> {
    try {
      return await this.#client.get(kinds.Lease, { namespace, name });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    const created = {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { namespace, name },
      spec: { leaseDurationSeconds: durationSeconds },
    };
    return this.#client.create(kinds.Lease, created).catch((error: unknown) => {
      // Another shard was first.
      if (!isAlreadyExists(error)) throw error;
      return this.#client.get(kinds.Lease, { namespace, name });
    });
  }

  #isHalfOver(): boolean {
    const endsMs = this.#lease === undefined ? 0 : expiryOf(this.#lease).getTime();
    return this.#clock.now() > endsMs - (durationSeconds * 1000) / 2;
  }

  #hasExpired(lease: Lease): boolean {
    return (lease.spec?.holderIdentity ?? "") === "" || this.#clock.now() > expiryOf(lease).getTime();
  }
}

/** Period of renewals of the lock while a write is in flight. */
const renewalMs = 5 * 60_000;
/** Pauses before a release is repeated. */
const firstPauseMs = 5_000;
const longestPauseMs = 60_000;

/** Renews the lock while anything is in flight, and releases it afterwards. */
export class LockKeeper {
  readonly #lock: ResourceLock;
  readonly #context: { readonly log: Logger; readonly signal: AbortSignal };
  readonly #again: (ms: number) => void;
  #pauseMs = firstPauseMs;

  /** `again`: asks for another call of `keep`. */
  constructor(
    lock: ResourceLock,
    context: { readonly log: Logger; readonly signal: AbortSignal },
    again: (ms: number) => void,
  ) {
    this.#lock = lock;
    this.#context = context;
    this.#again = again;
  }

  /** `isIdle`: nothing is wanted. Resolves with the error of a release that failed. */
  async keep({ isWriting, isIdle }: { readonly isWriting: boolean; readonly isIdle: boolean }): Promise<unknown> {
    const { log, signal } = this.#context;
    if (isWriting) this.#again(renewalMs);
    if (!this.#lock.isLeft || (!isWriting && !isIdle)) return undefined;
    try {
      if (isWriting) await this.#lock.take();
      else await this.#lock.release();
      this.#pauseMs = firstPauseMs;
      return undefined;
    } catch (error) {
      log.warn(isWriting ? "Failed to renew the lock of azure resources" : "Failed to unlock azure resources", {
        error,
      });
      if (isWriting) return undefined;
      if (!signal.aborted) this.#again(this.#pauseMs);
      this.#pauseMs = Math.min(longestPauseMs, this.#pauseMs * 2);
      return error;
    }
  }
}

function expiryOf({ spec }: Lease): Date {
  const renewed = spec?.renewTime === undefined ? 0 : Date.parse(spec.renewTime);
  return new Date((Number.isNaN(renewed) ? 0 : renewed) + (spec?.leaseDurationSeconds ?? 0) * 1000);
}

/** The API server's format of a time with microseconds. */
const microTime = (ms: number): string => new Date(ms).toISOString().replace("Z", "000Z");

const advice = {
  lock: "This may because another component is trying to update azure resources, e.g., load balancers. This will be automatically retried by cloud provider exponentially",
  unlock: `This will be automatically retried by cloud provider exponentially, but can also be manually unlocked by removing the holder of the lease '${namespace}/${name}'. Before doing this, please be aware that this could lead to unexpected issues`,
} as const;

/** Words of upstream's errors, which the operation's name precedes. */
async function reported<T>(step: keyof typeof advice, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const message = `failed due to fail to ${step} azure resources. ${advice[step]}: ${messageOf(error)}`;
    throw new ResourceLockError("ResourcesLocked", message, { cause: error });
  }
}
