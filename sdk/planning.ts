/** A JSON object of a cloud's API. */
export type ResourceDocument = Readonly<Record<string, unknown>>;

/** A write that a cloud would send. Both documents are settings only, without fields that the cloud itself fills. */
export interface PlannedWrite {
  /** Identifies the resource, such as an ARM resource ID. */
  readonly resource: string;
  /** Names the resource for people, such as `load balancer kubernetes in resource group rg`. */
  readonly title: string;
  /** Undefined where the resource does not exist. */
  readonly before: ResourceDocument | undefined;
  /** Undefined where it is deleted. */
  readonly after: ResourceDocument | undefined;
  /** Interruptions of traffic, one phrase each, such as `frontend web loses 20.0.0.1`. */
  readonly interruptions: readonly string[];
}

/** Removals that a guard holds because nothing that a person did explains them. They are not among the writes. */
export interface HeldRemovals {
  /** Identifies the resource that stays as it is. */
  readonly resource: string;
  /** Names the resource for people. */
  readonly title: string;
  /** Removals, one phrase each. */
  readonly removals: readonly string[];
  /** Why it is held, and how to confirm it. */
  readonly reason: string;
}

/** A resource that a manager is changing while the plan is made: its final state may differ from the plan's read. */
export interface WriteInFlight {
  /** Identifies the resource. */
  readonly resource: string;
  /** Names the resource for people. */
  readonly title: string;
  /** In the words of the cloud, such as `Updating`. */
  readonly state: string;
}

/**
 * Receives a cloud's writes while a plan is made. The cloud sends none of them, and answers its own later reads as if
 * they had been carried out.
 */
export interface Planning {
  record(write: PlannedWrite): void;
  /** A value that the cloud will choose, such as an address: it is shown as `(known after apply)`. */
  unknown(placeholder: string): void;
  /** Reported again whenever it changes: the last report of a resource is valid. */
  hold(held: HeldRemovals): void;
  /** Reported again with each read: a resource is listed once. */
  inFlight(write: WriteInFlight): void;
  /**
   * A resource as it was read, without secrets, for `plan --bundle`: with it a simulator can show the same. Absent where
   * no bundle is written.
   */
  read?(id: string, resource: ResourceDocument): void;
}
