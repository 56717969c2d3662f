import { type Clock, type KnownWarning, type Logger, messageOf, RetryAfterError } from "cloud-controller-host/sdk";

/** Without another attempt for this long, a trouble is forgotten: controllers try again within 5 minutes. */
const keptMs = 15 * 60_000;
/** After the end of a throttling: callers that still have work repeat it by then. */
const keptAfterThrottlingMs = 60_000;

interface Trouble {
  readonly sinceMs: number;
  readonly attempts: number;
  /** Without another attempt until then, it is forgotten. */
  readonly keptUntilMs: number;
  readonly reason: string;
  readonly isThrottled: boolean;
}

/** Requests that fail in the network or in the service and are retried, by kind of request, until one succeeds. */
export class Troubles {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #known = new Map<string, Trouble>();

  constructor({ clock, log }: { readonly clock: Clock; readonly log: Logger }) {
    this.#clock = clock;
    this.#log = log;
  }

  /** Called for every failed attempt. The first one is logged: the retries of a request may take a minute. */
  failed(request: string, failure: unknown): void {
    const reason = messageOf(failure);
    const now = this.#clock.now();
    const before = this.#current(request);
    if (before === undefined) this.#log.warn("Request to Azure failed; retrying", { request, reason });
    const { sinceMs = now, attempts = 0 } = before ?? {};
    const isThrottled = failure instanceof RetryAfterError;
    const keptUntilMs = now + (isThrottled ? failure.delayMs + keptAfterThrottlingMs : keptMs);
    this.#known.set(request, { sinceMs, attempts: attempts + 1, keptUntilMs, reason, isThrottled });
  }

  /** Called for every attempt that the service answered: it ends the throttling of all requests with the same limit. */
  answered(request: string): void {
    this.#known.delete(request);
    const limit = limitOf(request);
    for (const [other, { isThrottled }] of this.#known)
      if (isThrottled && limitOf(other) === limit) this.#known.delete(other);
  }

  /** One line for each kind of request that fails now. */
  get warnings(): readonly KnownWarning[] {
    return [...this.#known.keys()].flatMap((request) => {
      const trouble = this.#current(request);
      if (trouble === undefined) return [];
      const { sinceMs, attempts, reason, isThrottled } = trouble;
      const times = attempts === 1 ? "1 attempt" : `${attempts} attempts`;
      const since = new Date(sinceMs).toISOString();
      const kind = isThrottled ? "RequestsThrottled" : "RequestsFail";
      return [{ kind, text: `${request} fails since ${since}, ${times}: ${reason}`, since }];
    });
  }

  #current(request: string): Trouble | undefined {
    const trouble = this.#known.get(request);
    if (trouble === undefined || this.#clock.now() <= trouble.keptUntilMs) return trouble;
    this.#known.delete(request);
    return undefined;
  }
}

/** ARM throttles all reads of a type together, and all writes: see `Budget`. */
function limitOf(request: string): string {
  const [method = "", type = ""] = request.split(" ", 2);
  return `${method === "GET" ? "reads" : "writes"} of ${type}`;
}
