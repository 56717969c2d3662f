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
/** Annotation with the deployments that hold it together, under the one name that AKS knows; separated by commas. */
const sharers = "cloud-controller-host/held-by-shards";
/** The deployment that serves whatever no other one does, as upstream. The annotation is absent while it alone holds the Lease. */
const main = "-";

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
  /** The name among deployments. */
  readonly #sharer: string;
  /** The Lease as it was taken last, until it is released. */
  #lease: Lease | undefined;
  #isHeld = false;
  /** After a request that failed, the Lease may be another one than the one that was taken. */
  #isUnsure = false;
  /** One request at a time: a release must not run into the next acquisition. */
  #last: Promise<unknown> = Promise.resolve();

  constructor({ client, clock, shard, shards }: Pick<CloudContext, "client" | "clock" | "shard" | "shards">) {
    this.#client = client;
    this.#clock = clock;
    this.#sharer = shard === undefined ? main : shard || (shards?.own ?? main);
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
      const changed = await reported("lock", () => this.#amongDeployments(() => this.#take()));
      const isNew = !this.#isHeld;
      this.#isHeld = true;
      return changed && isNew;
    });
  }

  /** To be repeated when it rejects. */
  release(): Promise<void> {
    return this.#inTurn(async () => {
      this.#isHeld = false;
      await reported("unlock", () => this.#amongDeployments(() => this.#giveBack()));
      this.#lease = undefined;
    });
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#last.then(work);
    this.#last = next.catch(() => undefined);
    return next;
  }

  /** Deployments write the Lease at the same time: a conflict is none of its failures. */
  #amongDeployments<T>(work: () => Promise<T>): Promise<T> {
    const retries = { clock: this.#clock, steps: this.#sharer === main ? 2 : 20, pauseMs: 50 };
    return retryOnConflict(retries, work);
  }

  /** The other deployments that hold it; none once it has expired. */
  #others(lease: Lease): readonly string[] {
    if (this.#hasExpired(lease)) return [];
    return (lease.metadata?.annotations?.[sharers] || main).split(",").filter((one) => one !== this.#sharer);
  }

  async #take(): Promise<boolean> {
    const lease = await this.#getOrCreate();
    if (!this.#hasExpired(lease) && lease.spec?.holderIdentity?.toLowerCase() !== holder)
      throw new Error(
        `lease has not expired yet, another component such as aks rp may be processing another request, this would be automatically recovered after the lease expires (held by ${lease.spec?.holderIdentity} until ${expiryOf(lease).toISOString()})`,
      );
    const now = microTime(this.#clock.now());
    const spec = { ...lease.spec, holderIdentity: holder, acquireTime: now, renewTime: now };
    const held = heldBy(lease, [...this.#others(lease), this.#sharer]);
    this.#lease = await this.#client.replace(kinds.Lease, { ...held, spec });
    this.#isUnsure = false;
    const annotations = lease.metadata?.annotations;
    return annotations !== undefined && annotations[previousHolder]?.toLowerCase() !== holder;
  }

  async #giveBack(): Promise<void> {
    try {
      const lease = this.#isUnsure ? await this.#client.get(kinds.Lease, { namespace, name }) : this.#lease;
      if (lease === undefined || this.#hasExpired(lease) || lease.spec?.holderIdentity !== holder) return;
      const others = this.#others(lease);
      const left = heldBy(lease, others);
      if (others.length > 0) {
        await this.#client.replace(kinds.Lease, left);
        return;
      }
      const annotations = { ...left.metadata?.annotations, [previousHolder]: holder };
      await this.#client.replace(kinds.Lease, {
        ...left,
        metadata: { ...left.metadata, annotations },
        spec: { ...left.spec, holderIdentity: "" },
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
      // Another deployment was first.
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
  readonly #log: Logger;
  readonly #again: (ms: number) => void;
  #pauseMs = firstPauseMs;

  /** `again`: asks for another call of `keep`, unless the process stops. */
  constructor(lock: ResourceLock, { log }: { readonly log: Logger }, again: (ms: number) => void) {
    this.#lock = lock;
    this.#log = log;
    this.#again = again;
  }

  /** `isIdle`: nothing is wanted. Resolves with the error of a release that failed. */
  async keep({ isWriting, isIdle }: { readonly isWriting: boolean; readonly isIdle: boolean }): Promise<unknown> {
    if (isWriting) this.#again(renewalMs);
    if (!this.#lock.isLeft || (!isWriting && !isIdle)) return undefined;
    try {
      if (isWriting) await this.#lock.take();
      else await this.#lock.release();
      this.#pauseMs = firstPauseMs;
      return undefined;
    } catch (error) {
      this.#log.warn(isWriting ? "Failed to renew the lock of azure resources" : "Failed to unlock azure resources", {
        error,
      });
      if (isWriting) return undefined;
      this.#again(this.#pauseMs);
      this.#pauseMs = Math.min(longestPauseMs, this.#pauseMs * 2);
      return error;
    }
  }
}

/** The Lease with the deployments that hold it. That of the main one is upstream's, without the annotation. */
function heldBy(lease: Lease, deployments: readonly string[]): Lease {
  const { [sharers]: former, ...annotations } = lease.metadata?.annotations ?? {};
  const isMain = deployments.every((one) => one === main);
  if (isMain && former === undefined) return lease;
  const held = isMain ? annotations : { ...annotations, [sharers]: deployments.join(",") };
  return { ...lease, metadata: { ...lease.metadata, annotations: held } };
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
