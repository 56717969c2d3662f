import {
  ApiError,
  type CloudContext,
  CodedError,
  compareResourceVersion,
  isConflict,
  isNotFound,
  keyOf,
  kinds,
  messageOf,
  retryOnConflict,
  type Service,
  timestamp,
} from "cloud-controller-host/sdk";

import { keepLatest } from "../../keep-latest.ts";
import type { Observed, ServiceKey } from "../model/model.ts";
import { hasRecord, recordedAddresses, recordFor } from "../model/opened-record.ts";
import type { PlannerConfig } from "../model/planner-config.ts";
import { isSameService, isShared } from "../service/identity.ts";
import { readSubject } from "../service/subject.ts";
import { sameWish, superseded } from "./wanted.ts";

/** Attempts of a record that other writers of the Service keep from being written. */
const steps = 5;
const pauseMs = 50;
/** Services whose record was written; the informer shows that of older ones. */
const maxWritten = 1_000;

export interface OpenedRecordsOptions {
  readonly context: Pick<CloudContext, "client" | "clock" | "log" | "planning" | "signal">;
  readonly config: PlannerConfig;
}

/** Errors by Service. */
type Failures = ReadonlyMap<ServiceKey, unknown>;

/**
 * Where deployments share the security group, the addresses that are opened for a Service besides those of its frontends
 * are recorded at it, in a condition, before they are opened, until they are closed. Neither Azure nor the Service would
 * tell the next process whose such an address is, once the Service names it no more.
 */
export class OpenedRecords {
  readonly #options: OpenedRecordsOptions;
  /** Services as the last write of their record has returned them, which the informer may not show yet. */
  readonly #written = new Map<ServiceKey, Service>();

  constructor(options: OpenedRecordsOptions) {
    this.#options = options;
  }

  /** Adds what the security rules of these Services are about to open. */
  widen(services: readonly Service[], observed: Observed): Promise<Failures> {
    return this.#all(services, (current, planned) => [
      ...new Set([...recordedAddresses(current), ...this.#wanted(planned, observed)]),
    ]);
  }

  /**
   * Records what is open once the security rules are right: without what was closed, and with what was opened while no
   * other deployment was there. A Service that has changed since keeps its record: it is planned again.
   */
  settle(services: readonly Service[], observed: Observed): Promise<Failures> {
    return this.#all(services, (current, planned) =>
      sameWish(current, planned) ? this.#wanted(planned, observed) : recordedAddresses(current),
    );
  }

  #wanted(service: Service, observed: Observed): readonly string[] {
    const { config } = this.#options;
    return isShared({ config, observed }) ? readSubject(service, config).subject.additionalAddresses : [];
  }

  async #all(services: readonly Service[], recordIn: RecordIn): Promise<Failures> {
    const failures = new Map<ServiceKey, unknown>();
    if (this.#options.context.planning !== undefined) return failures;
    const outdated = services.filter((service) => {
      const known = this.#newest(service);
      return !hasRecord(known, recordIn(known, service));
    });
    const writes = outdated.map((service) =>
      this.#write(service, recordIn).catch((error: unknown) => void failures.set(keyOf(service), error)),
    );
    await Promise.all(writes);
    return failures;
  }

  /** On the version that is known, so that a request that arrives late replaces no newer record. */
  async #write(planned: Service, recordIn: RecordIn): Promise<void> {
    const { client, clock, log, signal } = this.#options.context;
    const key = keyOf(planned);
    const { name = "", namespace } = planned.metadata ?? {};
    let known: Service | undefined = this.#newest(planned);
    await retryOnConflict({ clock, signal, steps, pauseMs }, async () => {
      try {
        known ??= await client.get(kinds.Service, { name, namespace });
        if (!isSameService(known, planned)) throw superseded(planned);
        const addresses = recordIn(known, planned);
        if (hasRecord(known, addresses)) return;
        const condition = recordFor(known, addresses, timestamp(clock.now()));
        const { resourceVersion } = known.metadata ?? {};
        const body = { metadata: { resourceVersion }, status: { conditions: [condition] } };
        const at = { name, namespace };
        const written = await client.patch(kinds.Service, at, "strategic", body, { subresource: "status" });
        this.#written.set(key, written);
        keepLatest(this.#written, maxWritten);
        log.debug(2, "Recorded the opened addresses of Service", { service: key, addresses: addresses.join(", ") });
      } catch (error) {
        if (isConflict(error)) known = undefined;
        throw isNotFound(error) ? superseded(planned) : error;
      }
    }).catch((error: unknown) => {
      if (error instanceof CodedError && !(error instanceof ApiError)) throw error;
      throw new Error(`failed to record the opened addresses of Service: ${messageOf(error)}`, { cause: error });
    });
  }

  #newest(service: Service): Service {
    const written = this.#written.get(keyOf(service));
    const order = compareResourceVersion(service.metadata?.resourceVersion, written?.metadata?.resourceVersion);
    return written !== undefined && order === -1 ? written : service;
  }
}

/** The addresses to record: `current` is the Service that is written, `planned` the one that the plan is about. */
type RecordIn = (current: Service, planned: Service) => readonly string[];
