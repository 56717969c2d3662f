import type { Fate } from "./runtime/network.ts";

/** The servers that hosts talk to. */
export const targets = ["kube", "azure"] as const;
export type Target = (typeof targets)[number];

interface Request {
  readonly random: () => number;
  readonly target: Target;
  readonly isWrite: boolean;
}

interface Fault {
  /** Share of requests that it affects. */
  readonly rate: number;
  readonly fate: (request: Request) => Partial<Fate>;
}

/** A reply from an intermediary between client and server. */
function answer(status: number, { target }: Request, headers: Readonly<Record<string, string>> = {}): Partial<Fate> {
  const error = { code: `Simulated${status}`, message: "a simulated failure" };
  const body = target === "azure" ? { error } : { kind: "Status", apiVersion: "v1", status: "Failure", code: status };
  return { instead: () => Response.json(body, { status, headers }) };
}

/** Everything that a network does to requests. A new row is part of all later histories. */
const faults = {
  slow: { rate: 0.5, fate: ({ random }) => ({ delayMs: 20_000 * random() }) },
  "slow reply": { rate: 0.5, fate: ({ random }) => ({ replyDelayMs: 45_000 * random() }) },
  // Writes overtake reads, which arrive with what was there before.
  "late reads": { rate: 0.5, fate: ({ random, isWrite }) => (isWrite ? {} : { replyDelayMs: 40_000 * random() }) },
  "request lost": { rate: 0.3, fate: () => ({ lost: "request" }) },
  "reply lost": { rate: 0.3, fate: () => ({ lost: "reply" }) },
  "reset before": { rate: 0.4, fate: () => ({ reset: "before" }) },
  "reset after": { rate: 0.4, fate: () => ({ reset: "after" }) },
  throttled: {
    rate: 0.5,
    fate: (request) => answer(429, request, { "retry-after": String(1 + Math.floor(request.random() * 20)) }),
  },
  failing: { rate: 0.4, fate: (request) => answer(500, request) },
  unavailable: { rate: 0.4, fate: (request) => answer(503, request) },
  conflict: { rate: 0.4, fate: (request) => (request.isWrite ? answer(409, request) : {}) },
  precondition: { rate: 0.4, fate: (request) => (request.isWrite ? answer(412, request) : {}) },
  cut: { rate: 1, fate: () => ({ lost: "request" }) },
} as const satisfies Readonly<Record<string, Fault>>;

/** Of kept histories alone: no seed has them. */
const keptFaults = {
  refused: { rate: 1, fate: () => ({ reset: "before" }) },
  "failing writes": { rate: 1, fate: (request) => (request.isWrite ? answer(500, request) : {}) },
  "replies reset": { rate: 1, fate: () => ({ reset: "after" }) },
  "late requests": { rate: 1, fate: () => ({ delayMs: 4_000 }) },
  "late replies": { rate: 1, fate: () => ({ replyDelayMs: 50_000 }) },
  overtaken: { rate: 1, fate: (request) => (request.isWrite ? answer(412, request) : {}) },
} as const satisfies Readonly<Record<string, Fault>>;

const allFaults = { ...faults, ...keptFaults };
export type FaultName = keyof typeof allFaults;
export const faultNames: readonly string[] = Object.keys(faults);
const isFault = (name: string): name is FaultName => name in allFaults;

/** A period in which requests to one server fail in one way, from one host or from all. */
export interface FaultWindow {
  readonly fault: string;
  readonly target: Target;
  /** Undefined: every host. */
  readonly host: number | undefined;
  /** In virtual time. */
  readonly until: number;
}

const meanLatencyMs: Readonly<Record<Target, number>> = { kube: 4, azure: 60 };

/** Decides the fate of each request. */
export class Weather {
  readonly #random: () => number;
  readonly #now: () => number;
  #windows: readonly FaultWindow[] = [];

  constructor(random: () => number, now: () => number) {
    this.#random = random;
    this.#now = now;
  }

  add(window: FaultWindow): void {
    this.#windows = [...this.#windows.filter(({ until }) => until > this.#now()), window];
  }

  clear(): void {
    this.#windows = [];
  }

  fateOf(target: Target, host: number | undefined, method: string): Fate {
    const random = this.#random;
    const latency = (): number => meanLatencyMs[target] * (0.5 + random());
    const usual: Fate = { delayMs: latency() / 2, replyDelayMs: latency() / 2 };
    const window = this.#windows.find(
      (each) => each.target === target && (each.host ?? host) === host && each.until > this.#now(),
    );
    if (window === undefined || host === undefined || !isFault(window.fault)) return usual;
    const { rate, fate } = allFaults[window.fault];
    const isWrite = method !== "GET";
    return random() < rate ? { ...usual, ...fate({ random, target, isWrite }) } : usual;
  }
}
