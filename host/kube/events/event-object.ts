import {
  apiVersionOf,
  type Clock,
  type EventSubject,
  kinds,
  type KubeEvent,
  timestamp,
  visible,
} from "cloud-controller-host/sdk";

export interface EventFacts {
  readonly component: string;
  readonly subject: EventSubject & Required<Pick<EventSubject, "apiVersion" | "kind">>;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

/** Creates Event objects like client-go's recorder, with unique names. */
export class EventMaker {
  readonly #clock: Clock;
  #lastNanoseconds = 0n;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  make({ component, subject, type, reason, message }: EventFacts): KubeEvent {
    const { name = "", namespace, uid, resourceVersion } = subject.metadata ?? {};
    const now = this.timestamp();
    return {
      apiVersion: apiVersionOf(kinds.Event),
      kind: kinds.Event.kind,
      metadata: { name: this.nameFor(name), namespace: namespace || "default" },
      involvedObject: {
        apiVersion: subject.apiVersion,
        kind: subject.kind,
        name,
        ...(namespace && { namespace }),
        ...(uid && { uid }),
        ...(resourceVersion && { resourceVersion }),
      },
      type,
      reason,
      message: visible(message),
      count: 1,
      firstTimestamp: now,
      lastTimestamp: now,
      source: { component },
      reportingComponent: component,
      reportingInstance: "",
    };
  }

  /** `<object>.<hex nanoseconds>`, or a random name if that would be invalid. */
  nameFor(object: string): string {
    const now = BigInt(Math.floor(this.#clock.now() * 1000)) * 1000n;
    this.#lastNanoseconds = now > this.#lastNanoseconds ? now : this.#lastNanoseconds + 1n;
    const name = `${object}.${this.#lastNanoseconds.toString(16)}`;
    return name.length <= 253 && subdomain.test(name) ? name : crypto.randomUUID();
  }

  /** Event timestamps have whole seconds. */
  timestamp(): string {
    return timestamp(this.#clock.now());
  }
}

const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
