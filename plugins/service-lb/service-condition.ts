import {
  additionalAddressesOpen,
  ApiError,
  findStatusCondition,
  type GenerationContext,
  isNotFound,
  keyOf,
  loadBalancerReady,
  messageOf,
  type Service,
  syncFailureMessage,
  timestamp,
  visible,
} from "cloud-controller-host/sdk";

const { type: ready, synced, failed } = loadBalancerReady;
/** Limit of the API server for the message of a condition. */
const maxMessage = 32_768;

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  /** Undefined where it is not known if the condition was written. */
  readonly message: string | undefined;
  readonly lastTransitionTime?: string;
}

export interface ServiceConditions {
  /** Sets `LoadBalancerReady` to false. A write that fails is only logged: the sync has its own error. */
  failure(service: Service, error: unknown, warnings: readonly string[], retryDelayMs: number): Promise<void>;
  /**
   * Sets it to true, on Services that have it and on those with warnings. Rejects when that fails, unless the Service is
   * gone: no later sync would correct a condition that is false.
   */
  success(service: Service, warnings: readonly string[]): Promise<void>;
  /**
   * Of the status in the patch that releases the Service: the condition is about its load balancer, as is the cloud's
   * record of the addresses that it has opened. Empty without one.
   */
  removal(service: Service): Readonly<Record<string, unknown>>;
  /**
   * True for a Service that shows a failure which was not written here: by the generation before, or by a process that was
   * paused, after the informer's store was read for a sync.
   */
  showsFailureOfAnother(service: Service): boolean;
  /** Called for a Service that is gone. */
  forget(service: Service): void;
}

type Context = Pick<GenerationContext, "clock" | "log">;

/** True if the API server may have carried a write out although it failed. */
const mayBeInEffect = (error: unknown): boolean => !(error instanceof ApiError) || error.status >= 500;

export function serviceConditions(
  { clock, log }: Context,
  patch: (service: Service, body: { readonly status: { readonly conditions: readonly Condition[] } }) => Promise<void>,
): ServiceConditions {
  /** Conditions that may not be seen in the informer's store yet, by UID. */
  const written = new Map<string | undefined, Condition>();
  const shown = ({ status }: Service): Condition | undefined => findStatusCondition(status?.conditions, ready);
  const current = (service: Service): Condition | undefined => written.get(service.metadata?.uid) ?? shown(service);
  const write = async (service: Service, state: Omit<Condition, "type" | "message">, text: string) => {
    const before = current(service);
    const message = visible(text).slice(0, maxMessage);
    const isSame = before?.status === state.status;
    if (isSame && before.reason === state.reason && before.message === message) return;
    // It shows since when the status holds, not when it was last confirmed.
    const since = isSame ? before.lastTransitionTime : undefined;
    const condition = { type: ready, ...state, message, lastTransitionTime: since ?? timestamp(clock.now()) };
    try {
      await patch(service, { status: { conditions: [condition] } });
    } catch (error) {
      if (mayBeInEffect(error)) written.set(service.metadata?.uid, { ...condition, message: undefined });
      throw error;
    }
    written.set(service.metadata?.uid, condition);
  };
  return {
    async failure(service, error, warnings, retryDelayMs) {
      const retryAt = timestamp(clock.now() + retryDelayMs);
      const message = syncFailureMessage({ error: messageOf(error), retryAt, warnings: warnings.join("; ") });
      try {
        await write(service, { status: "False", reason: failed }, message);
      } catch (cause) {
        log.debug(2, "Unable to write the condition of a Service", { service: keyOf(service), error: cause });
      }
    },
    async success(service, warnings) {
      if (warnings.length === 0 && current(service) === undefined) return;
      try {
        await write(service, { status: "True", reason: synced }, warnings.join("; "));
      } catch (error) {
        if (!isNotFound(error)) throw error;
      }
    },
    removal(service) {
      const record = findStatusCondition(service.status?.conditions, additionalAddressesOpen.type);
      const types = [
        ...(current(service) === undefined ? [] : [ready]),
        ...(record === undefined ? [] : [record.type]),
      ];
      return types.length === 0 ? {} : { conditions: types.map((type) => ({ type, $patch: "delete" })) };
    },
    showsFailureOfAnother: (service) => !written.has(service.metadata?.uid) && shown(service)?.status === "False",
    forget: ({ metadata }) => void written.delete(metadata?.uid),
  };
}
