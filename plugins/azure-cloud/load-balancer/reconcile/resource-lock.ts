import {
  type Clock,
  CodedError,
  isNotFound,
  kinds,
  type KubeClient,
  type Lease,
  type Logger,
  messageOf,
} from "cloud-controller-host/sdk";

const name = "aks-managed-resource-locker";
const namespace = "kube-system";
const holder = "cloud-controller-manager";
const durationSeconds = 900;
const previousHolder = "aks-managed-resource-locker-previous-holder";

/** Another component holds the lock, or the Lease cannot be read or written. */
export class ResourceLockError extends CodedError {}

/**
 * The Lease by which AKS and this cloud take turns at writing load balancers. It is held while a batch writes; batches
 * that overlap share it. A Lease that another component holds and does not renew expires after 15 minutes.
 * Source: upstream `AzureResourceLocker`.
 */
export class ResourceLock {
  readonly #client: KubeClient;
  readonly #clock: Clock;
  /** The Lease as it was taken last. */
  #lease: Lease | undefined;
  #holders = 0;
  /** One request at a time: a release must not run into the next acquisition. */
  #last: Promise<unknown> = Promise.resolve();

  constructor({ client, clock }: { readonly client: KubeClient; readonly clock: Clock }) {
    this.#client = client;
    this.#clock = clock;
  }

  /** Resolves with true when another component has held it since: what is known of Azure may be out of date. */
  acquire(): Promise<boolean> {
    return this.#inTurn(async () => {
      const isNeeded = this.#holders === 0 || this.#isHalfOver();
      const changed = isNeeded && (await reported("lock", () => this.#take()));
      this.#holders += 1;
      return changed;
    });
  }

  release(): Promise<void> {
    return this.#inTurn(async () => {
      this.#holders -= 1;
      if (this.#holders === 0) await reported("unlock", () => this.#giveBack());
    });
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const next = this.#last.then(work);
    this.#last = next.catch(() => undefined);
    return next;
  }

  async #take(): Promise<boolean> {
    const lease = await this.#getOrCreate();
    if (!this.#hasExpired(lease) && lease.spec?.holderIdentity?.toLowerCase() !== holder)
      throw new Error(
        `lease has not expired yet, another component such as aks rp may be processing another request, this would be automatically recovered after the lease expires (held by ${lease.spec?.holderIdentity} until ${expiryOf(lease).toISOString()})`,
      );
    const now = microTime(this.#clock.now());
    const spec = { ...lease.spec, holderIdentity: holder, acquireTime: now, renewTime: now };
    this.#lease = await this.#client.replace(kinds.Lease, { ...lease, spec });
    const annotations = lease.metadata?.annotations;
    return annotations !== undefined && annotations[previousHolder]?.toLowerCase() !== holder;
  }

  async #giveBack(): Promise<void> {
    const lease = this.#lease;
    if (lease === undefined || this.#hasExpired(lease)) return;
    const annotations = { ...lease.metadata?.annotations, [previousHolder]: holder };
    try {
      await this.#client.replace(kinds.Lease, {
        ...lease,
        metadata: { ...lease.metadata, annotations },
        spec: { ...lease.spec, holderIdentity: "" },
      });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  async #getOrCreate(): Promise<Lease> {
    try {
      return await this.#client.get(kinds.Lease, { namespace, name });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
    return this.#client.create(kinds.Lease, {
      apiVersion: "coordination.k8s.io/v1",
      kind: "Lease",
      metadata: { namespace, name },
      spec: { leaseDurationSeconds: durationSeconds },
    });
  }

  /** Batches that overlap may hold it for longer than it lasts. */
  #isHalfOver(): boolean {
    const endsMs = this.#lease === undefined ? 0 : expiryOf(this.#lease).getTime();
    return this.#clock.now() > endsMs - (durationSeconds * 1000) / 2;
  }

  #hasExpired(lease: Lease): boolean {
    return (lease.spec?.holderIdentity ?? "") === "" || this.#clock.now() > expiryOf(lease).getTime();
  }
}

/** The lock in the hands of one batch: taken once, and released when the last write that it has begun ends. */
export class LockHold {
  readonly #lock: ResourceLock;
  readonly #log: Logger;
  readonly #inFlight: Promise<unknown>[] = [];
  #isHeld = false;

  constructor(lock: ResourceLock, log: Logger) {
    this.#lock = lock;
    this.#log = log;
  }

  /** Resolves as `ResourceLock.acquire` does; with false when it is held already. */
  async take(): Promise<boolean> {
    if (this.#isHeld) return false;
    const isOutdated = await this.#lock.acquire();
    this.#isHeld = true;
    return isOutdated;
  }

  /** To be called for a write that the batch leaves in flight. */
  keepUntil(end: Promise<unknown>): void {
    this.#inFlight.push(end);
  }

  /** Does not wait for writes in flight. */
  async release(): Promise<void> {
    if (!this.#isHeld) return;
    if (this.#inFlight.length === 0) return this.#lock.release();
    const released = Promise.allSettled(this.#inFlight).then(() => this.#lock.release());
    released.catch((error: unknown) => this.#log.warn("Failed to unlock azure resources", { error }));
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
